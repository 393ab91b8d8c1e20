// Bailian (Qwen) JSONL: {"chat_id": n, "parent_chat_id": n or -1, "timestamp": s, "input_length":
// n, "output_length": n, "type": ..., "turn": n, "hash_ids": [...]}; one id for each 16 tokens of
// the prompt, of which the last may be partly filled or left out.

#include <unordered_map>

#include "replay/session_chains.h"
#include "replay/trace_reader.h"

namespace stemma::replay {

namespace {

constexpr Depth kBlock = 16;

bool recognizes(std::string_view line) {
  return line.find("\"parent_chat_id\"") != std::string_view::npos &&
         line.find("\"hash_ids\"") != std::string_view::npos;
}

Result<Trace> read(TraceLines& lines) {
  constexpr std::int64_t kMostChats = std::int64_t{1} << 53;
  TraceBuilder builder(lines.file(), kBailianFormat.name, kBlock, /*timed=*/true);
  std::vector<TimedRequest> requests;
  std::vector<std::size_t> predecessors;
  std::unordered_map<std::int64_t, std::size_t> chats;
  for (;;) {
    STEMMA_TRY(const auto object, lines.next_object());
    if (!object) break;
    STEMMA_TRY(const auto chat, lines.integer(*object, "chat_id", 0, kMostChats));
    STEMMA_TRY(const auto parent, lines.integer(*object, "parent_chat_id", -1, kMostChats));
    STEMMA_TRY(const double arrival, lines.number(*object, "timestamp", 0, 1e12));
    STEMMA_TRY(const auto in, lines.integer(*object, "input_length", 1, kMostTraceTokens));
    STEMMA_TRY(const auto out, lines.integer(*object, "output_length", 0, kMostTraceTokens));
    STEMMA_TRY(const auto ids, lines.ids(*object, "hash_ids"));
    if (!requests.empty() && arrival < requests.back().arrival) {
      return lines.bad("its timestamp is before that of the line above");
    }
    const auto blocks = static_cast<std::int64_t>(ids.size());
    if (blocks != in / kBlock && blocks != (in + kBlock - 1) / kBlock) {
      return lines.bad("hash_ids has " + std::to_string(blocks) + " ids; " + std::to_string(in) +
                       " tokens are " + std::to_string((in + kBlock - 1) / kBlock) +
                       " blocks of 16");
    }
    TimedRequest request{arrival, {static_cast<Depth>(in), static_cast<Depth>(out), 0, {}}};
    for (const std::uint64_t id : ids) request.request.blocks.push_back(builder.block(0, id));
    const auto before = chats.find(parent);
    predecessors.push_back(before == chats.end() ? requests.size() : before->second);
    chats[chat] = requests.size();
    requests.push_back(std::move(request));
  }
  add_timed_sessions(builder, std::move(requests), predecessors);
  return std::move(builder).finish();
}

}  // namespace

const TraceFormat kBailianFormat = {
    "bailian", R"({"chat_id": ..., "parent_chat_id": ..., "timestamp": ..., "hash_ids": [...]})",
    recognizes, read};

}  // namespace stemma::replay
