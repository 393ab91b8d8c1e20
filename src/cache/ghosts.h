#pragma once
// A bounded memory of what was evicted: fingerprints of (node, depth, first
// token that is gone), where a node is an id and its generation. It only answers whether something
// was there once, for explanations; a fingerprint that is pushed out or met by chance costs a wrong
// reason, nothing else.
//
// Threads: none. Costs: O(1); 8 bytes for each of a fixed number of
// fingerprints.

#include <cstdint>
#include <vector>

#include "cache/node_store.h"
#include "core/ids.h"

namespace stemma {

class Ghosts {
 public:
  Ghosts() : table_(kSize, 0) {}

  void add(NodeId id, std::uint16_t generation, Depth depth, Token next) {
    const std::uint64_t fingerprint = of(id, generation, depth, next);
    table_[fingerprint % kSize] = fingerprint;
  }
  bool has(NodeId id, std::uint16_t generation, Depth depth, Token next) const {
    const std::uint64_t fingerprint = of(id, generation, depth, next);
    return table_[fingerprint % kSize] == fingerprint;
  }

 private:
  static constexpr std::size_t kSize = 1 << 14;

  // splitmix64's finalizer over all of it.
  static std::uint64_t of(NodeId id, std::uint16_t generation, Depth depth, Token next) {
    std::uint64_t h = std::uint64_t{index_of(id)} << 32 ^ static_cast<std::uint32_t>(next);
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u + static_cast<std::uint32_t>(depth);
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu + generation;
    h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9u;
    return (h ^ (h >> 31)) | 1;
  }

  std::vector<std::uint64_t> table_;  // 0: empty
};

}  // namespace stemma
