#include "support/engine_harness.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "compute/cpu/cpu_device.h"
#include "models/gguf_file.h"

namespace stemma::test {

namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
    std::abort();
  }
  return *std::move(result);
}

class CollectingSink final : public RequestSink {
 public:
  void on_token(const Sampled& token) override { answer_.tokens.push_back(token.token); }
  void on_finish(const GenerationResult& result) override {
    answer_.result = result;
    promise_.set_value(std::move(answer_));
  }
  std::future<Answer> answer() { return promise_.get_future(); }

 private:
  Answer answer_;
  std::promise<Answer> promise_;
};

}  // namespace

EngineHarness::EngineHarness(const std::string& model_path, const EngineConfig& config, LogitsBook& book,
                             int threads)
    : EngineHarness(model_path, config, book, make_cpu_device({.threads = threads})) {}

EngineHarness::EngineHarness(const std::string& model_path, const EngineConfig& config, LogitsBook& book,
                             std::unique_ptr<Device> device)
    : device_(std::make_unique<RecordingDevice>(std::move(device), book)) {
  const auto file = must(GgufFile::open(model_path));
  model_ = must(load_model(file, *device_));
  tokenizer_ = must(Tokenizer::load(*file));
  engine_ = must(Engine::create(config, *model_, *device_, *tokenizer_));
}

Pending EngineHarness::start(GenerationRequest request) {
  auto sink = std::make_shared<CollectingSink>();
  auto answer = sink->answer();
  const RequestId id = must(engine_->submit(std::move(request), std::move(sink)));
  return {id, std::move(answer)};
}

Answer EngineHarness::generate(std::vector<Token> prompt, int max_tokens) {
  return start(greedy(std::move(prompt), max_tokens)).wait();
}

EngineStats EngineHarness::idle_stats() {
  for (;;) {
    const EngineStats stats = engine_->stats();
    if (stats.running == 0 && stats.waiting == 0) return stats;
    std::this_thread::yield();
  }
}

EngineConfig with_room(EngineConfig config, const Model& model, std::size_t pages, std::size_t rows) {
  const KvLayout kv = model.kv_layout(config.k_type, config.v_type, config.page_size);
  const std::size_t page_bytes = kv.bytes_per_token() * static_cast<std::size_t>(config.page_size);
  const std::size_t row_bytes = model.state_layout().row_bytes();
  // Half a slot more of each, so that rounding never costs one.
  const double rows_part = (static_cast<double>(rows) + 0.5) * static_cast<double>(row_bytes);
  const double pages_part = (static_cast<double>(pages) + 0.5) * static_cast<double>(page_bytes);
  config.cache_bytes = static_cast<std::size_t>(rows_part + pages_part);
  config.state_share = row_bytes == 0 ? 0.0 : rows_part / (rows_part + pages_part);
  return config;
}

GenerationRequest greedy(std::vector<Token> prompt, int max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace stemma::test
