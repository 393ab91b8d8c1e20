#include "engine/reuse_advice.h"

namespace stemma {

std::string_view advice_on(ReuseLimit limit) {
  switch (limit) {
    case ReuseLimit::whole_prompt:
      return "Nothing to do: all but the last token, which yields the first logits, was reused.";
    case ReuseLimit::no_such_prefix:
      return "Nobody has sent what follows: put what prompts have in common first, and what "
             "changes "
             "(dates, ids, the question) last.";
    case ReuseLimit::other_namespace:
      return "Another cache_salt has this prompt: send the same one where requests may share.";
    case ReuseLimit::kv_evicted:
      return "It was known and made room for others: raise --cache-memory, or send a higher "
             "priority with prompts worth keeping.";
    case ReuseLimit::state_evicted:
      return "Its KV is there, but its state made room for others: raise --cache-memory, or send a "
             "higher priority with prompts worth keeping.";
    case ReuseLimit::state_not_stored:
      return "Its KV is there, but no state was stored on the way; unless "
             "--mamba-scheduler-strategy is no_buffer, computing this prompt stores one where it "
             "leaves the known path, and the next one reuses all of that.";
    case ReuseLimit::below_grid:
      return "Nothing to do: this device stores states at multiples of a fixed number of tokens, "
             "and all up to the last of them was reused.";
    case ReuseLimit::window_evicted:
      return "It was known, but the KV that layers with a sliding window need there made room for "
             "others: raise --cache-memory, or send a higher priority with prompts worth keeping.";
  }
  return {};
}

std::string_view advice_on(WaitReason reason) {
  switch (reason) {
    case WaitReason::prefix_in_flight:
      return "A running request was computing a prefix of this prompt; waiting is faster than "
             "computing it twice.";
    case WaitReason::no_pages:
      return "Running requests held the cache memory: raise --cache-memory, or let fewer run at "
             "once (--max-running-requests).";
    case WaitReason::no_rows:
      return "Running requests held all state rows: raise --cache-memory, or let fewer run at once "
             "(--max-running-requests).";
  }
  return {};
}

}  // namespace stemma
