#include "options/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stemma {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

const Facts kMachine{.machine = {.cores = 6, .available_memory = 4096 * kMiB}, .model = {}};

// A model whose sequences cost 1 KiB a token and nothing else.
Facts with_model(Depth context_length) {
  Facts facts = kMachine;
  facts.model = ModelFacts{context_length, [](const EngineConfig& config) {
                             return static_cast<std::size_t>(config.context_length) * 1024 <= config.cache_bytes;
                           }};
  return facts;
}

Result<ResolvedOptions> resolved(const std::vector<std::string>& arguments, const Facts& facts = kMachine,
                                 Command command = Command::serve) {
  return resolve(parse_command_line(command, arguments).value(), facts);
}

const ResolvedOption& entry(const ResolvedOptions& all, std::string_view name) {
  for (const ResolvedOption& candidate : all.entries) {
    if (candidate.spec->name == name) return candidate;
  }
  throw std::out_of_range(std::string(name));
}

TEST(Resolve, EveryPresetIsAValueOfItsOption) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.default_text.empty()) continue;
    EXPECT_TRUE(parse_value(spec.values, {std::string(spec.default_text)}, spec.name, "").has_value()) << spec.name;
    EXPECT_EQ(spec.rule, nullptr) << spec.name << " has a default and a rule";
    EXPECT_FALSE(spec.required) << spec.name << " has a default and is required";
  }
}

TEST(Resolve, PresetsAreThoseOfTheConfigurations) {
  const Options options = resolved({"-m", "a.gguf"}).value().options;
  const EngineConfig engine;
  const ServerConfig server;
  EXPECT_EQ(options.engine.step_tokens, engine.step_tokens);
  EXPECT_EQ(options.engine.mixed_prefill_tokens, engine.mixed_prefill_tokens);
  EXPECT_EQ(options.engine.max_sequences, engine.max_sequences);
  EXPECT_EQ(options.engine.max_waiting, engine.max_waiting);
  EXPECT_EQ(options.engine.page_size, engine.page_size);
  EXPECT_EQ(options.engine.eviction, engine.eviction);
  EXPECT_EQ(options.engine.k_type, engine.k_type);
  EXPECT_EQ(options.engine.state_share, engine.state_share);
  EXPECT_EQ(options.engine.snapshot.periodic_interval, engine.snapshot.periodic_interval);
  EXPECT_EQ(options.engine.strategy, engine.strategy);
  EXPECT_EQ(options.engine.snapshot.idle_interval, engine.snapshot.idle_interval);
  EXPECT_EQ(options.engine.snapshot.generation_interval, engine.snapshot.generation_interval);
  EXPECT_EQ(options.engine.snapshot.ladder_start, engine.snapshot.ladder_start);
  EXPECT_EQ(options.engine.snapshot.offsets_from_start, engine.snapshot.offsets_from_start);
  EXPECT_EQ(options.engine.snapshot.offsets_from_end, engine.snapshot.offsets_from_end);
  EXPECT_EQ(options.engine.snapshot.branch_snapshot, engine.snapshot.branch_snapshot);
  EXPECT_EQ(options.engine.snapshot.message_snapshot, engine.snapshot.message_snapshot);
  EXPECT_EQ(options.engine.snapshot.repeat_snapshot, engine.snapshot.repeat_snapshot);
  EXPECT_EQ(options.engine.snapshot.end_snapshot, engine.snapshot.end_snapshot);
  EXPECT_EQ(options.engine.snapshot.path_share, engine.snapshot.path_share);
  EXPECT_EQ(options.server.host, server.host);
  EXPECT_EQ(options.server.port, server.port);
  EXPECT_EQ(options.server.max_body_bytes, server.max_body_bytes);
  EXPECT_EQ(options.server.io_threads, server.io_threads);
  EXPECT_EQ(options.server.worker_threads, server.worker_threads);
}

TEST(Resolve, WhatIsAskedForReachesItsPlace) {
  const Options options =
      resolved({"-m", "dir/a.gguf", "-t", "3", "--ctx-size", "9000", "--cache-type-k", "f32", "--page-size", "64",
                "--cache-memory", "2G", "--state-share", "0.5", "--schedule-policy", "lpm", "--snapshot-end", "off",
                "--port", "0", "--api-key", "k", "--max-body-size", "1M", "--chunked-prefill-size", "37", "-np", "9"})
          .value()
          .options;
  EXPECT_EQ(options.model_path, "dir/a.gguf");
  EXPECT_EQ(options.device.threads, 3);
  EXPECT_EQ(options.engine.context_length, 9000);
  EXPECT_EQ(options.engine.k_type, DType::f32);
  EXPECT_EQ(options.engine.v_type, DType::f16);
  EXPECT_EQ(options.engine.page_size, 64);
  EXPECT_EQ(options.engine.cache_bytes, 2048 * kMiB);
  EXPECT_EQ(options.engine.state_share, 0.5);
  EXPECT_EQ(options.engine.admission, AdmissionPolicy::longest_prefix);
  EXPECT_FALSE(options.engine.snapshot.end_snapshot);
  EXPECT_TRUE(options.engine.snapshot.branch_snapshot);
  EXPECT_EQ(options.engine.step_tokens, 37);
  EXPECT_EQ(options.engine.max_sequences, 9);
  EXPECT_EQ(options.server.port, 0);
  EXPECT_EQ(options.server.api_keys, std::vector<std::string>{"k"});
  EXPECT_EQ(options.server.max_body_bytes, kMiB);
}

TEST(Resolve, TheCachesSettingsReachTheEngine) {
  const SnapshotSettings snapshot = resolved({"-m",
                                              "a",
                                              "--snapshot-periodic-interval",
                                              "1",
                                              "--snapshot-idle-interval",
                                              "2",
                                              "--mamba-track-interval",
                                              "3",
                                              "--snapshot-ladder",
                                              "4",
                                              "--snapshot-offsets-from-start",
                                              "5,6",
                                              "--additional-snapshot-offsets-from-end",
                                              "0,7",
                                              "--enable-branch-snapshot",
                                              "off",
                                              "--snapshot-message",
                                              "off",
                                              "--snapshot-repeat",
                                              "off",
                                              "--snapshot-path-share",
                                              "0.25"})
                                        ->options.engine.snapshot;
  EXPECT_EQ(snapshot.periodic_interval, 1);
  EXPECT_EQ(snapshot.idle_interval, 2);
  EXPECT_EQ(snapshot.generation_interval, 3);
  EXPECT_EQ(snapshot.ladder_start, 4);
  EXPECT_EQ(snapshot.offsets_from_start, (std::vector<Depth>{5, 6}));
  EXPECT_EQ(snapshot.offsets_from_end, (std::vector<Depth>{0, 7}));
  EXPECT_FALSE(snapshot.branch_snapshot || snapshot.message_snapshot || snapshot.repeat_snapshot);
  EXPECT_TRUE(snapshot.end_snapshot);
  EXPECT_EQ(snapshot.path_share, 0.25);
}

TEST(Resolve, EveryStrategyOfSglangHasItsName) {
  const auto strategy = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"-m", "a"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return resolved(all)->options.engine.strategy;
  };
  EXPECT_EQ(strategy({}), SchedulerStrategy::automatic);
  EXPECT_EQ(strategy({"--mamba-scheduler-strategy", "auto"}), SchedulerStrategy::automatic);
  EXPECT_EQ(strategy({"--mamba-scheduler-strategy", "no_buffer"}), SchedulerStrategy::no_buffer);
  EXPECT_EQ(strategy({"--mamba-radix-cache-strategy", "extra_buffer"}),
            SchedulerStrategy::extra_buffer);
  EXPECT_EQ(strategy({"--mamba-scheduler-strategy", "extra_buffer_lazy"}),
            SchedulerStrategy::extra_buffer_lazy);
  EXPECT_EQ(strategy({"--enable-mamba-extra-buffer"}), SchedulerStrategy::extra_buffer);
}

TEST(Resolve, EveryEvictionPolicyOfTheCacheMayBeAskedFor) {
  for (const char* name : {"value", "lru", "lfu", "slru", "priority", "marconi", "marconi:0.5",
                           "marconi:0", "seglen"}) {
    const auto all = resolved({"-m", "a", "--radix-eviction-policy", name});
    ASSERT_TRUE(all.has_value()) << name;
    EXPECT_EQ(all->options.engine.eviction, name);
  }
  for (const char* name : {"fifo", "marconi:", "marconi:-1", "marconi:x", "lru:1", ""}) {
    const auto all = resolved({"-m", "a", "--eviction-policy", name});
    ASSERT_FALSE(all.has_value()) << name;
    EXPECT_EQ(all.error().code(), ErrorCode::option_bad_value) << name;
  }
}

TEST(Resolve, RulesChooseAndSayWhy) {
  const ResolvedOptions all = resolved({"-m", "dir/a.gguf"}).value();
  EXPECT_EQ(all.options.device.threads, 6);
  EXPECT_EQ(all.options.server.model_alias, "a");
  EXPECT_EQ(all.options.engine.cache_bytes, 1024 * kMiB);
  EXPECT_EQ(entry(all, "cache-memory").why, "a quarter of the 4.0 GiB that are free");
  EXPECT_THAT(decisions(all), Contains("threads = 6: one for each core that this process may use"));
}

TEST(Resolve, CacheMemoryStaysWithinUsefulBounds) {
  Facts facts = kMachine;
  facts.machine.available_memory = 100 * kMiB;
  EXPECT_EQ(resolved({"-m", "a"}, facts)->options.engine.cache_bytes, 64 * kMiB);
  facts.machine.available_memory = 1024 * 1024 * kMiB;
  EXPECT_EQ(resolved({"-m", "a"}, facts)->options.engine.cache_bytes, 64 * 1024 * kMiB);
}

TEST(Resolve, TheContextIsTheModelsIfTheMemoryHoldsIt) {
  EXPECT_EQ(entry(resolved({"-m", "a"}).value(), "ctx-size").value, std::nullopt);
  EXPECT_EQ(resolved({"-m", "a"}, with_model(4096))->options.engine.context_length, 4096);

  const auto bounded = resolved({"-m", "a", "--cache-memory", "3M"}, with_model(100000));
  EXPECT_EQ(bounded->options.engine.context_length, 3072);
  EXPECT_THAT(entry(*bounded, "ctx-size").why, HasSubstr("3.0 MiB of cache memory"));

  const auto asked = resolved({"-m", "a", "--cache-memory", "3M", "-c", "50000"}, with_model(100000));
  EXPECT_EQ(asked->options.engine.context_length, 50000);
}

TEST(Resolve, ABoundedContextIsTheLongestWholeNumberOfPages) {
  for (const int page_size : {1, 7, 16, 256}) {
    const auto all =
        resolved({"-m", "a", "--cache-memory", "3M", "--page-size", std::to_string(page_size)}, with_model(100000));
    EXPECT_EQ(all->options.engine.context_length, 3072 / page_size * page_size) << page_size;
  }
}

TEST(Resolve, KnowingTheModelChangesNothingElse) {
  const auto arguments = {std::string("-m"), std::string("a")};
  const ResolvedOptions before = resolved(arguments).value();
  const ResolvedOptions after = resolved(arguments, with_model(4096)).value();
  ASSERT_EQ(before.entries.size(), after.entries.size());
  for (std::size_t i = 0; i < before.entries.size(); ++i) {
    if (before.entries[i].spec->name == "ctx-size") continue;
    EXPECT_EQ(before.entries[i].value, after.entries[i].value) << before.entries[i].spec->name;
  }
}

TEST(Resolve, OnePromptNeedsOneSequence) {
  EXPECT_EQ(resolved({"-m", "a", "-p", "x"}, kMachine, Command::run)->options.engine.max_sequences, 1);
}

TEST(Resolve, RefusesBadAndMissingValues) {
  EXPECT_EQ(resolved({"-m", "a", "--page-size", "257"}).error().code(), ErrorCode::option_bad_value);
  EXPECT_EQ(resolved({"--port", "80"}).error().message(),
            "--model is missing; `stemma serve` needs it: the model, a GGUF file (of a split one, its first part)");
}

TEST(Resolve, TheJsonTellsOriginsAndHidesSecrets) {
  const auto json = to_json(resolved({"-m", "a", "--api-key", "secret"}).value());
  EXPECT_EQ(json.at("threads").at("value"), 6);
  EXPECT_EQ(json.at("threads").at("origin"), "rule");
  EXPECT_EQ(json.at("page-size").at("origin"), "default");
  EXPECT_EQ(json.at("model").at("origin"), "command line");
  EXPECT_TRUE(json.at("state-share").at("value").is_null());
  EXPECT_THAT(json.dump(), ::testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace stemma
