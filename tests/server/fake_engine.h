#pragma once
// An engine without a model: it "generates" tokens that a test chooses, one a round for each running request, on a
// thread of its own, and checks requests as the real one does.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace stemma::testing {

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(const Tokenizer& tokenizer, Depth context_length = 4096);
  ~FakeEngine() override;

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  // An explanation that names the prompt's length, on the calling thread or, while paused, never.
  Status explain(GenerationRequest request, OnExplained done) override;
  void cancel(RequestId id) override;
  void flush_cache() override;
  EngineStats stats() const override;
  Depth context_length() const override { return context_length_; }
  const MemorySplit& memory_split() const override { return split_; }

  // What all later requests generate, over and over until max_tokens unless it ends in an end-of-generation token.
  void answer(std::vector<Token> tokens);
  void answer(const std::string& text, bool end = true);
  // Rounds stand still (requests wait) until resumed; cancellations are still carried out.
  void pause(bool paused);
  // Requests beyond so many are refused.
  void limit(std::size_t requests);
  // Every request fails with this error instead of its third token.
  void fail_with(std::optional<Error> error);
  // submit() throws.
  void throw_on_submit(bool on);
  // As if this step were stuck.
  void stick(std::optional<StuckStep> step);

  // Waits until `condition` of the statistics holds.
  void wait_until(const std::function<bool(const EngineStats&)>& condition);

  std::vector<GenerationRequest> submitted() const;
  std::size_t flushes() const;

 private:
  struct Running {
    std::shared_ptr<RequestSink> sink;
    GenerationResult result;
    SamplingParams sampling;
    int max_tokens;
    std::size_t next = 0;
    bool cancelled = false;
  };

  Status check(const GenerationRequest& request) const;
  void loop();
  // One token for one request; whether it has ended.
  bool advance(Running& running) const;

  const Tokenizer& tokenizer_;
  const Depth context_length_;
  const MemorySplit split_{100, 10, 4096, 8192, "fake"};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::unique_ptr<Running>> running_;
  std::vector<GenerationRequest> submitted_;
  std::vector<Token> answer_;
  std::optional<Error> failure_;
  std::size_t limit_ = 1'000'000;
  std::size_t flushes_ = 0;
  std::uint64_t last_id_ = 0;
  bool paused_ = false;
  bool throw_ = false;
  bool stop_ = false;
  EngineStats stats_{};
  std::thread thread_;
};

}  // namespace stemma::testing
