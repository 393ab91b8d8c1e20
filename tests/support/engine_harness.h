#pragma once
// An engine over a model file for tests: runs requests and gives their answers back. Its device records (see
// recording_device.h), so every test that uses it also tests exactness.

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/recording_device.h"

namespace stemma::test {

struct Answer {
  std::vector<Token> tokens;
  GenerationResult result;
};

// A request under way.
class Pending {
 public:
  Pending(RequestId id, std::future<Answer> answer) : id_(id), answer_(std::move(answer)) {}
  RequestId id() const { return id_; }
  Answer wait() { return answer_.get(); }

 private:
  RequestId id_;
  std::future<Answer> answer_;
};

class EngineHarness {
 public:
  // Aborts the test program with the error's text if the model or the engine cannot be made.
  EngineHarness(const std::string& model_path, const EngineConfig& config, LogitsBook& book, int threads = 2);
  // The same on a device of the test's own.
  EngineHarness(const std::string& model_path, const EngineConfig& config, LogitsBook& book,
                std::unique_ptr<Device> device);

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Greedy unless the request says otherwise.
  Pending start(GenerationRequest request);
  Answer generate(std::vector<Token> prompt, int max_tokens);

  // Waits until nothing runs, then gives the statistics.
  EngineStats idle_stats();

 private:
  std::unique_ptr<RecordingDevice> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
};

// The budget that holds so many pages and rows of this model under this configuration: sets cache_bytes and state_share.
EngineConfig with_room(EngineConfig config, const Model& model, std::size_t pages, std::size_t rows);

// A request for a greedy continuation.
GenerationRequest greedy(std::vector<Token> prompt, int max_tokens);

}  // namespace stemma::test
