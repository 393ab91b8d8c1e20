#pragma once
// The fields that both completion calls share, and those that are ignored or refused.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/completion_request.h"
#include "server/json_body.h"

namespace stemma {

struct CommonFields {
  SamplingParams sampling;                  // without seed
  std::optional<std::int64_t> seed;         // absent: random
  std::optional<std::int64_t> max_tokens;   // -1: to the end of the context
  std::vector<std::string> stop;
  std::string cache_salt;
  int priority = kDefaultPriority;
  float retention_seconds = 0;
  bool cache_report = false;
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
};

CommonFields read_common_fields(FieldReader& fields);

// Ends the reading: the first error, if any, also for fields that nobody read.
std::optional<ApiError> finish_reading(FieldReader& fields);

}  // namespace stemma
