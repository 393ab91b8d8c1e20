// Sessions of coding agents, one a line: {"id": ..., "block_size": 64, "tool_tokens": n,
// "system_tokens": n, "requests": [...]}. A request is {"t": s, "in": n, "out": n, "think_time": s,
// "keep": n, "add": [[first, count], ...]}: its whole blocks are the first `keep` of the request
// before it in the same list and the runs of `add`. An element with `requests` of its own is a
// sub-agent: a list that starts from nothing.
//
// Ids are local to a session. The head of a session's first prompt, tools and system, is what all
// sessions share: its whole blocks get common ids by position.

#include <algorithm>
#include <optional>

#include "replay/trace_builder.h"
#include "replay/trace_reader.h"

namespace stemma::replay {

namespace {

using nlohmann::json;

// Of a session's prompts, which are in memory at once while it is read. A line of differences can
// stand for far more than it holds.
constexpr std::size_t kMostExpanded = std::size_t{1} << 27;

// Ids count up from 1, so a table by id does; larger ones are looked up.
constexpr std::uint64_t kMostDenseIds = 1 << 22;

bool recognizes(std::string_view line) {
  return line.find("\"block_size\"") != std::string_view::npos &&
         line.find("\"requests\"") != std::string_view::npos;
}

// One session's line.
class SessionReader {
 public:
  SessionReader(const TraceLines& lines, TraceBuilder& builder, std::uint64_t scope, Depth block)
      : lines_(lines), builder_(builder), scope_(scope), block_(block) {}

  Status read(const json& session) {
    STEMMA_TRY(const auto tools, lines_.integer(session, "tool_tokens", 0, kMostTraceTokens));
    STEMMA_TRY(const auto system, lines_.integer(session, "system_tokens", 0, kMostTraceTokens));
    head_ = static_cast<std::size_t>((tools + system) / block_);
    STEMMA_TRY(const json* const list, lines_.array(session, "requests"));
    STEMMA_TRY(auto own, read_list(*list, /*may_nest=*/true));
    if (own.empty()) return lines_.bad("it has no requests of its own");
    builder_.begin_session(0);
    const std::uint32_t first = builder_.add_chain(std::move(own), std::nullopt);
    for (SubAgent& agent : agents_) {
      Launch launch{std::nullopt, agent.delay};
      if (agent.before > 0) launch.after = first + static_cast<std::uint32_t>(agent.before) - 1;
      builder_.add_chain(std::move(agent.requests), launch);
    }
    return {};
  }

 private:
  struct SubAgent {
    std::size_t before;  // requests of the session's list before it
    double delay;
    std::vector<RawRequest> requests;
  };

  Result<std::vector<RawRequest>> read_list(const json& list, bool may_nest) {
    std::vector<RawRequest> requests;
    double last_end = 0;  // of the request before, in the trace's time
    for (const json& element : list) {
      if (!element.is_object()) return lines_.bad("a request is not a JSON object");
      STEMMA_TRY(const double t, lines_.number_or(element, "t", 0));
      if (element.contains("requests")) {
        if (!may_nest) return lines_.bad("a sub-agent has a sub-agent; one level is known");
        STEMMA_TRY(const json* const nested, lines_.array(element, "requests"));
        STEMMA_TRY(auto inner, read_list(*nested, /*may_nest=*/false));
        if (!inner.empty())
          agents_.push_back({requests.size(), std::max(0.0, t - last_end), std::move(inner)});
        continue;
      }
      STEMMA_TRY(const auto in, lines_.integer(element, "in", 1, kMostTraceTokens));
      STEMMA_TRY(const auto out, lines_.integer(element, "out", 0, kMostTraceTokens));
      STEMMA_TRY(const double api_time, lines_.number_or(element, "api_time", 0));
      STEMMA_TRY(const double think,
                 lines_.number_or(element, "think_time", std::max(0.0, t - last_end)));
      last_end = t + api_time;
      static const std::vector<BlockId> kNone;
      STEMMA_TRY(auto blocks,
                 read_blocks(element, in, requests.empty() ? kNone : requests.back().blocks));
      requests.push_back(
          {static_cast<Depth>(in), static_cast<Depth>(out), think, std::move(blocks)});
      head_known_ = true;
    }
    return requests;
  }

  Result<std::vector<BlockId>> read_blocks(const json& request, std::int64_t in,
                                           const std::vector<BlockId>& previous) {
    const auto whole = static_cast<std::size_t>(in / block_);
    STEMMA_TRY(const auto keep,
               lines_.integer(request, "keep", 0, static_cast<std::int64_t>(previous.size())));
    std::vector<BlockId> blocks(previous.begin(), previous.begin() + keep);
    STEMMA_TRY(const json* const runs, lines_.array(request, "add"));
    for (const json& run : *runs) {
      const bool pair = run.is_array() && run.size() == 2 && run[0].is_number_unsigned() &&
                        run[1].is_number_unsigned();
      if (!pair) return lines_.bad("an element of add is not [first, count]");
      const auto first = run[0].get<std::uint64_t>();
      const auto count = run[1].get<std::uint64_t>();
      if (count > whole - std::min(whole, blocks.size())) {
        return lines_.bad("keep and add give more blocks than " + std::to_string(in) +
                          " tokens have");
      }
      for (std::uint64_t i = 0; i < count; ++i) blocks.push_back(block(first + i, blocks.size()));
    }
    expanded_ += blocks.size();
    if (expanded_ > kMostExpanded) {
      return lines_.bad("the prompts of its session have more than " +
                        std::to_string(kMostExpanded) + " blocks together");
    }
    if (blocks.size() != whole) {
      return lines_.bad("keep and add give " + std::to_string(blocks.size()) + " blocks; " +
                        std::to_string(in) + " tokens have " + std::to_string(whole) +
                        " whole ones");
    }
    return blocks;
  }

  // The block with a session's id, which stands at `index` of a prompt.
  BlockId block(std::uint64_t id, std::size_t index) {
    if (id >= kMostDenseIds) return builder_.block(scope_, id);
    if (id >= known_.size()) known_.resize(std::max<std::size_t>(id + 1, 2 * known_.size()));
    std::optional<BlockId>& block = known_[id];
    if (!block) {
      const bool in_head = !head_known_ && index < head_;
      block = in_head ? builder_.block(0, index) : builder_.own_block();
    }
    return *block;
  }

  const TraceLines& lines_;
  TraceBuilder& builder_;
  const std::uint64_t scope_;  // >= 1; 0 is the common head
  const Depth block_;
  std::size_t expanded_ = 0;                   // blocks of all prompts so far
  std::size_t head_ = 0;                       // its whole blocks
  bool head_known_ = false;                    // the first request was read
  std::vector<std::optional<BlockId>> known_;  // by id, of the ids below kMostDenseIds
  std::vector<SubAgent> agents_;
};

Result<Trace> read(TraceLines& lines) {
  std::optional<TraceBuilder> builder;
  Depth block = 0;
  for (std::uint64_t scope = 1;; ++scope) {
    STEMMA_TRY(const auto object, lines.next_object());
    if (!object) break;
    STEMMA_TRY(const auto size, lines.integer(*object, "block_size", 1, 1 << 16));
    if (!builder) {
      block = static_cast<Depth>(size);
      builder.emplace(lines.file(), kAgentCodingFormat.name, block, /*timed=*/false);
    }
    if (size != block) return lines.bad("its block_size is not that of the first line");
    STEMMA_CHECK(SessionReader(lines, *builder, scope, block).read(*object));
  }
  return std::move(*builder).finish();
}

}  // namespace

const TraceFormat kAgentCodingFormat = {
    "agent-coding",
    R"({"id": ..., "block_size": 64, "tool_tokens": ..., "system_tokens": ..., "requests": [...]})",
    recognizes, read};

}  // namespace stemma::replay
