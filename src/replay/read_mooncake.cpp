// Mooncake JSONL: {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}; one
// id for each 512 tokens of the prompt, the last one for what is left.

#include "replay/session_chains.h"
#include "replay/trace_reader.h"

namespace stemma::replay {

namespace {

constexpr Depth kBlock = 512;

bool recognizes(std::string_view line) {
  return line.find("\"hash_ids\"") != std::string_view::npos &&
         line.find("\"timestamp\"") != std::string_view::npos;
}

Result<Trace> read(TraceLines& lines) {
  TraceBuilder builder(lines.file(), kMooncakeFormat.name, kBlock, /*timed=*/true);
  std::vector<TimedRequest> requests;
  for (;;) {
    STEMMA_TRY(const auto object, lines.next_object());
    if (!object) break;
    STEMMA_TRY(const double milliseconds, lines.number(*object, "timestamp", 0, 1e15));
    STEMMA_TRY(const auto in, lines.integer(*object, "input_length", 1, kMostTraceTokens));
    STEMMA_TRY(const auto out, lines.integer(*object, "output_length", 0, kMostTraceTokens));
    STEMMA_TRY(const auto ids, lines.ids(*object, "hash_ids"));
    const double arrival = milliseconds / 1000;
    if (!requests.empty() && arrival < requests.back().arrival) {
      return lines.bad("its timestamp is before that of the line above");
    }
    if (static_cast<std::int64_t>(ids.size()) != (in + kBlock - 1) / kBlock) {
      return lines.bad("hash_ids has " + std::to_string(ids.size()) + " ids; " +
                       std::to_string(in) + " tokens are " +
                       std::to_string((in + kBlock - 1) / kBlock) + " blocks of 512");
    }
    TimedRequest request{arrival, {static_cast<Depth>(in), static_cast<Depth>(out), 0, {}}};
    for (const std::uint64_t id : ids) request.request.blocks.push_back(builder.block(0, id));
    requests.push_back(std::move(request));
  }
  const auto predecessors = predecessors_by_prefix(requests, kBlock);
  add_timed_sessions(builder, std::move(requests), predecessors);
  return std::move(builder).finish();
}

}  // namespace

const TraceFormat kMooncakeFormat = {
    "mooncake",
    R"({"timestamp": ..., "input_length": ..., "output_length": ..., "hash_ids": [...]})",
    recognizes, read};

}  // namespace stemma::replay
