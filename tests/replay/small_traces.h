#pragma once
// Traces of a few lines, one in each format.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "replay/trace_reader.h"
#include "replay/units.h"

namespace stemma::replay::test {

inline const std::string kMooncake =
    R"({"timestamp": 0, "input_length": 1100, "output_length": 100, "hash_ids": [7, 8, 9]}
{"timestamp": 500, "input_length": 700, "output_length": 5, "hash_ids": [7, 20]}
{"timestamp": 60000, "input_length": 1600, "output_length": 30, "hash_ids": [7, 8, 30, 31]}
)";

inline const std::string kAgentCoding =
    R"({"id": "a", "block_size": 64, "tool_tokens": 100, "system_tokens": 40, "requests": [)"
    R"({"t": 0, "in": 200, "out": 70, "think_time": 0, "api_time": 2, "keep": 0, "add": [[1, 3]]},)"
    R"({"t": 3, "requests": [{"t": 0, "in": 130, "out": 5, "think_time": 0, "keep": 0, "add": [[50, 2]]}]},)"
    R"({"t": 9, "in": 400, "out": 10, "think_time": 5, "api_time": 1, "keep": 3, "add": [[4, 2], [10, 1]]}]})"
    "\n"
    R"({"id": "b", "block_size": 64, "tool_tokens": 100, "system_tokens": 40, "requests": [)"
    R"({"t": 0, "in": 256, "out": 9, "think_time": 0, "keep": 0, "add": [[1, 4]]}]})"
    "\n";

inline const std::string kBailian =
    R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 10, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 8.0, "input_length": 64, "output_length": 4, "type": "text", "turn": 2, "hash_ids": [1, 2, 4, 5]}
)";

inline const std::string kMarconi =
    R"({"session_id": 3, "turn_id": 0, "ts": 1.0, "num_input_tokens": 3, "num_output_tokens": 2, "input_tokens": [5, 6, 7], "output_tokens": [8, 9]}
{"session_id": 3, "turn_id": 1, "ts": 4.0, "num_input_tokens": 6, "num_output_tokens": 1, "input_tokens": [5, 6, 7, 8, 9, 1], "output_tokens": [2]}
)";

inline const std::string kAzure = R"(TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
)";

inline Result<Trace> read(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "trace");
}

// All blocks of a request's path. `request` counts in its chain.
inline std::vector<BlockId> path(const Trace& trace, std::size_t chain, std::size_t request) {
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i <= request; ++i) {
    const TraceRequest& r = trace.requests[trace.chains[chain].first_request + i];
    blocks.resize(r.keep);
    for (const BlockRun& run : trace.runs_of(r)) {
      for (std::uint32_t b = 0; b < run.count; ++b) blocks.push_back(run.first + b);
    }
  }
  return blocks;
}

}  // namespace stemma::replay::test
