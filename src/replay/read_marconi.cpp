// Marconi JSONL: {"session_id": n, "turn_id": n, "ts": s, "num_input_tokens": n,
// "num_output_tokens": n, "input_tokens": [...], "output_tokens": [...]}; the tokens themselves, of
// the whole prompt.

#include <unordered_map>

#include "replay/session_chains.h"
#include "replay/trace_reader.h"

namespace stemma::replay {

namespace {

bool recognizes(std::string_view line) {
  return line.find("\"input_tokens\"") != std::string_view::npos &&
         line.find("\"session_id\"") != std::string_view::npos;
}

Result<Trace> read(TraceLines& lines) {
  TraceBuilder builder(lines.file(), kMarconiFormat.name, 1, /*timed=*/true);
  std::vector<TimedRequest> requests;
  std::vector<std::size_t> predecessors;
  std::unordered_map<std::int64_t, std::size_t> last_turn;
  for (;;) {
    STEMMA_TRY(const auto object, lines.next_object());
    if (!object) break;
    STEMMA_TRY(const auto session, lines.integer(*object, "session_id", 0, std::int64_t{1} << 53));
    STEMMA_TRY(const double arrival, lines.number(*object, "ts", 0, 1e12));
    STEMMA_TRY(const auto input, lines.ids(*object, "input_tokens"));
    STEMMA_TRY(const auto output, lines.ids(*object, "output_tokens"));
    if (input.empty()) return lines.bad("input_tokens is empty");
    if (input.size() + output.size() > static_cast<std::size_t>(kMostTraceTokens)) {
      return lines.bad("it has more than " + std::to_string(kMostTraceTokens) + " tokens");
    }
    if (!requests.empty() && arrival < requests.back().arrival) {
      return lines.bad("its ts is before that of the line above");
    }
    TimedRequest request{
        arrival, {static_cast<Depth>(input.size()), static_cast<Depth>(output.size()), 0, {}}};
    for (const std::uint64_t token : input)
      request.request.blocks.push_back(builder.block(0, token));
    for (const std::uint64_t token : output)
      request.request.blocks.push_back(builder.block(0, token));
    const auto before = last_turn.find(session);
    predecessors.push_back(before == last_turn.end() ? requests.size() : before->second);
    last_turn[session] = requests.size();
    requests.push_back(std::move(request));
  }
  add_timed_sessions(builder, std::move(requests), predecessors);
  return std::move(builder).finish();
}

}  // namespace

const TraceFormat kMarconiFormat = {
    "marconi", R"({"session_id": ..., "ts": ..., "input_tokens": [...], "output_tokens": [...]})",
    recognizes, read};

}  // namespace stemma::replay
