#pragma once
// What stands for a token in a replay. A trace says which blocks of tokens are equal, not which
// tokens; so the cache is run on units of one block, or of any whole part of one, with page and
// state bytes scaled to match. A unit of path block b that starts at token i of it has the id b *
// (block / unit) + i / unit.
//
// A prompt's last unit may be partly filled. If the answer fills it, it is the path's unit; else it
// is a unit that nothing else has, so that no more than the whole units before it can be reused.

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "replay/trace.h"

namespace stemma::replay {

struct UnitSize {
  Depth tokens;      // in a unit; divides the trace's blocks
  Depth page_units;  // units in a page: pages have 16 tokens, or one unit if that is more

  double page_tokens() const { return static_cast<double>(tokens) * page_units; }
  // Rounded up, at least 1.
  Depth units(Depth token_count) const {
    return token_count <= tokens ? 1 : (token_count - 1) / tokens + 1;
  }
};

// Units of so many tokens, or the largest that divide the trace's blocks if that is fewer. Errors:
// `replay_bad_setting`: units that do not divide the blocks; more units in the trace than there are
// ids.
Result<UnitSize> unit_size(const Trace& trace, Depth tokens);

// A request in units.
struct Demand {
  std::span<const Token> path;  // the prompt, then what is computed of the answer
  Depth prompt;                 // units of it that are prompt, >= 1
  std::uint32_t request;        // which of Trace::requests it is
};

// The paths of a chain's requests, one after another.
class PathCursor {
 public:
  // Goes on to the next request of the chain. O(units that differ from the path before).
  void advance(const Trace& trace, std::uint32_t request, UnitSize unit);

  // Of the request advanced to last. The answer's last token is never computed, so it ends before
  // that. Valid until the next advance().
  Demand demand() const {
    return {std::span(path_).first(static_cast<std::size_t>(length_)), prompt_, request_};
  }

 private:
  std::vector<Token> path_;  // all units of the path's blocks
  Depth prompt_ = 0;
  Depth length_ = 0;
  std::uint32_t request_ = 0;
  std::size_t tail_ = 0;  // a unit that was replaced by one of its own
  Token replaced_ = 0;    // what it was
  bool has_tail_ = false;
};

}  // namespace stemma::replay
