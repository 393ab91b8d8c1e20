#pragma once
// What a command runs with, as plain data: the result of resolving the option table (options/resolve.h). The parts are
// the configurations of the folders that use them.

#include <optional>
#include <string>
#include <vector>

#include "compute/cpu/cpu_device.h"
#include "engine/engine.h"
#include "models/synthetic.h"
#include "server/server.h"
#include "text/sampler.h"

namespace stemma {

struct RunOptions {
  std::string prompt;
  int tokens = 128;
  bool chat = false;  // the prompt is a user's message
  SamplingParams sampling;
};

// Of lists, each entry with each; 0 tokens are none.
struct BenchOptions {
  std::vector<Depth> prompt_tokens;
  std::vector<Depth> generated_tokens;
  std::vector<Depth> depths;  // tokens that are there before
  std::vector<int> streams;   // that generate at once
  int repetitions = 1;
  bool json = false;
};

struct ExplainOptions {
  std::string text;  // a code or a message; empty: the list of codes
  bool json = false;
};

// All as typed; cli/replay.cpp makes a sweep of it.
struct ReplayOptions {
  std::vector<std::string> traces;
  std::string model;
  std::string budgets;
  std::string systems;
  std::string codec;
  std::string profile;
  std::string unit;
  std::string format;
  std::string plot;  // a file to write; empty: none
  std::optional<double> state_share;
  int orders = 1;
  std::uint64_t seed = 1;
  int sessions = 0;  // 0: all
  int concurrency = 1;
  int chunk = 1;
  int threads = 1;
};

struct PlanOptions {
  std::string model;
  std::uint64_t memory_bytes = 0;  // 0: not given
  std::vector<std::string> traces;
  std::string policy;
  std::string profile;
  int sessions = 0;  // 0: all
  int concurrency = 1;
};

struct Options {
  std::string model_path;
  CpuDeviceConfig device{.threads = 1};
  EngineConfig engine;
  ServerConfig server;
  std::string chat_template;  // a template, or the path of a file with one; empty: the model's own
  std::string log_level;
  double drain_seconds = 0;  // how long a graceful end may take
  RunOptions run;
  BenchOptions bench;
  ExplainOptions explain;
  ReplayOptions replay;
  PlanOptions plan;
  SyntheticModelSpec make_model;
};

}  // namespace stemma
