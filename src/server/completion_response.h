#pragma once
// The objects that completion calls answer with: OpenAI's, with llama-server's `timings`.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/completion_request.h"
#include "server/generation.h"

namespace stemma {

// Builds the answer of one API call, whole or in chunks. Keeps no text.
class CompletionResponse {
 public:
  // `model`: what the answer calls the model. `fingerprint`: the model's, of which system_fingerprint shows a part.
  CompletionResponse(const Tokenizer& tokenizer, const CompletionRequest& request, const std::string& model,
                     const std::string& fingerprint);

  struct Choice {
    std::string text;
    std::vector<Sampled> tokens;  // filled if log-probabilities or token ids are asked for
    const char* finish_reason;
  };

  // What stands in an answer beside the choices. `cache` is a report, or a list of them for several
  // choices; null: none.
  struct Totals {
    Usage usage;
    Timings timings;
    nlohmann::ordered_json cache;
  };

  // The whole answer.
  nlohmann::ordered_json whole(std::span<const Choice> choices, const Totals& totals);

  // Chunks of a streamed answer: what one token added, and the end of a choice.
  nlohmann::ordered_json piece(const Progress& progress);
  nlohmann::ordered_json end(std::size_t choice, const char* finish_reason);
  // The chunks that come last of all: `end_of_last_choice` with timings and cache; or, if the usage
  // was asked for, that one as it is, and another without choices.
  std::vector<nlohmann::ordered_json> last(nlohmann::ordered_json end_of_last_choice,
                                           const Totals& totals) const;

 private:
  bool chat() const { return api_ == CompletionApi::chat; }
  nlohmann::ordered_json head(const char* object) const;
  nlohmann::ordered_json chunk_head() const;
  nlohmann::ordered_json logprobs(std::size_t choice, std::span<const Sampled> tokens);
  void add_token_ids(nlohmann::ordered_json& choice, std::span<const Sampled> tokens) const;

  const Tokenizer& tokenizer_;
  const CompletionApi api_;
  const bool logprobs_;
  const bool token_ids_;
  const bool include_usage_;
  const std::string id_;
  const std::int64_t created_;
  const std::string model_;
  const std::string fingerprint_;
  std::vector<std::size_t> offsets_;  // a choice: code points so far
  std::vector<bool> begun_;           // a choice: its role was sent
};

}  // namespace stemma
