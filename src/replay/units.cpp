#include "replay/units.h"

#include <algorithm>
#include <limits>

namespace stemma::replay {

namespace {
constexpr Depth kPageTokens = 16;
}  // namespace

Result<UnitSize> unit_size(const Trace& trace, Depth tokens) {
  const auto bad = [](std::string reason) {
    return fail(ErrorCode::replay_bad_setting, {{"reason", std::move(reason)}});
  };
  const Depth unit = std::min(tokens, trace.block_tokens);
  if (unit < 1 || trace.block_tokens % unit != 0) {
    return bad("units of " + std::to_string(tokens) + " tokens do not divide the blocks of " +
               std::to_string(trace.block_tokens) + " tokens of " + trace.name);
  }
  const std::uint64_t ids =
      std::uint64_t{trace.block_count} * static_cast<std::uint64_t>(trace.block_tokens / unit) +
      trace.requests.size();
  if (ids > static_cast<std::uint64_t>(std::numeric_limits<Token>::max())) {
    return bad(trace.name + " has " + std::to_string(ids) + " different units of " +
               std::to_string(unit) +
               " tokens; at most 2^31 - 1 can be told apart: take larger units");
  }
  return UnitSize{unit, unit >= kPageTokens ? 1 : kPageTokens / unit};
}

void PathCursor::advance(const Trace& trace, std::uint32_t request_index, UnitSize unit) {
  const TraceRequest& request = trace.requests[request_index];
  request_ = request_index;
  const auto ratio = static_cast<std::size_t>(trace.block_tokens / unit.tokens);
  if (has_tail_) path_[tail_] = replaced_;
  has_tail_ = false;

  path_.resize(request.keep * ratio);
  for (const BlockRun& run : trace.runs_of(request)) {
    const auto first = static_cast<Token>(run.first * ratio);
    const auto count = static_cast<Token>(run.count * ratio);
    for (Token i = 0; i < count; ++i) path_.push_back(first + i);
  }

  const std::int64_t computed = std::int64_t{request.in} + std::max(request.out - 1, 0);
  prompt_ = unit.units(request.in);
  length_ = std::max(prompt_, static_cast<Depth>(computed / unit.tokens));
  const bool filled = std::int64_t{prompt_} * unit.tokens <= computed;
  if (!filled) {
    has_tail_ = true;
    tail_ = static_cast<std::size_t>(prompt_ - 1);
    replaced_ = path_[tail_];
    path_[tail_] = static_cast<Token>(trace.block_count * ratio + request_index);
  }
}

}  // namespace stemma::replay
