#pragma once
// Makes a Trace out of what the readers of the formats find: gives blocks their ids, says which
// blocks an answer has, and keeps of each path only what differs from the one before.
//
// One thread. Memory: the ids of one chain, besides the trace itself.

#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "replay/trace.h"

namespace stemma::replay {

// A request as a format gives it.
struct RawRequest {
  Depth in;
  Depth out;
  double offset;
  // The prompt's blocks: all whole ones, and perhaps the last, partly filled one. Or the whole
  // path, where the answer's tokens are known.
  std::vector<BlockId> blocks;
};

// Longest prompt or answer that is read, in tokens.
constexpr Depth kMostTraceTokens = 1 << 24;

class TraceBuilder {
 public:
  TraceBuilder(std::string name, std::string_view format, Depth block_tokens, bool timed);

  // The block that a format calls `key` in `scope` (a session, where names are local to one; else
  // 0).
  BlockId block(std::uint64_t scope, std::uint64_t key);
  // A block that nothing else has.
  BlockId own_block() { return trace_.block_count++; }

  void begin_session(double start);
  // Adds a chain to the session. Returns the index of its first request. O(blocks).
  std::uint32_t add_chain(std::vector<RawRequest> requests, std::optional<Launch> launch);

  bool empty() const { return trace_.requests.empty(); }
  Trace finish() &&;

 private:
  std::vector<BlockId> path_of(const RawRequest& request, const std::vector<BlockId>* next_path,
                               std::size_t next_blocks);

  Trace trace_;
  struct Key {
    std::uint64_t scope, key;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((key.scope * 0x9E3779B97F4A7C15u) ^
                                      (key.key * 0xC2B2AE3D27D4EB4Fu));
    }
  };
  std::unordered_map<Key, BlockId, KeyHash> known_;
};

}  // namespace stemma::replay
