#pragma once
// The engine's requests behind one API call, from submission to usage. Knows nothing of HTTP or JSON.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/completion_request.h"
#include "server/event_queue.h"
#include "server/server_metrics.h"
#include "text/text_stream.h"

namespace stemma {

// What one event added to one choice.
struct Progress {
  std::size_t choice;
  std::string text;              // certain now; may be empty
  std::optional<Sampled> token;  // unless it only ended the choice
  bool finished = false;         // the last one of this choice
};

struct Usage {
  std::int64_t prompt_tokens = 0;      // each prompt once, also if n > 1
  std::int64_t cached_tokens = 0;      // of those
  std::int64_t completion_tokens = 0;  // of all choices
};

// Sums over all choices.
struct Timings {
  std::int64_t cache_n = 0;    // prompt tokens reused
  std::int64_t prompt_n = 0;   // prompt tokens computed
  std::int64_t predicted_n = 0;
  double prompt_ms = 0;
  double predicted_ms = 0;
};

// Used on the connection's strand. Destroying it at any moment cancels what still runs, and no event comes after.
class Generation {
 public:
  Generation(Engine& engine, const Tokenizer& tokenizer, ServerMetrics& metrics, CompletionRequest request,
             std::shared_ptr<Connection> reader);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const CompletionRequest& request() const { return request_; }

  // Hands all choices to the engine, or none: at the first that it refuses the others are cancelled.
  Status submit();

  // The events since the last call, in order. A choice whose stop string was found is cancelled in the engine here.
  std::vector<Progress> advance();

  // Ends it with an error, whatever is still to come.
  void give_up(Error error) { error_ = std::move(error); }

  // All choices are finished, or one failed.
  bool finished() const { return unfinished_ == 0 || error_; }
  const std::optional<Error>& error() const { return error_; }

  // Of a finished choice: "stop" or "length", OpenAI's words.
  const char* finish_reason(std::size_t choice) const;
  // Of a finished generation.
  Usage usage() const;
  Timings timings() const;
  const GenerationResult& result(std::size_t choice) const { return *choices_[choice].result; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Choice {
    TextStream text;
    RequestId id{};
    bool submitted = false;
    int tokens = 0;  // received, up to the one that completed a stop string
    std::optional<GenerationResult> result;
  };

  Progress take(std::size_t index, const Sampled& sampled);
  std::optional<Progress> take(std::size_t index, const GenerationResult& result);
  int completion_tokens(const Choice& choice) const;

  Engine& engine_;
  const Tokenizer& tokenizer_;
  ServerMetrics& metrics_;
  CompletionRequest request_;
  const std::shared_ptr<EventQueue> queue_;
  std::vector<Choice> choices_;
  std::size_t unfinished_;
  std::optional<Error> error_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace stemma
