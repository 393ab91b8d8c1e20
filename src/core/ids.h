#pragma once
// The plain numbers that name things, one type each so that they cannot be mixed up.

#include <cstdint>
#include <type_traits>

namespace stemma {

// A vocabulary index. Negative values never name a token.
using Token = std::int32_t;

// Number of tokens from the root: the state "at depth d" has consumed tokens [0, d), and the K and V row of
// token i is "the row at depth i".
using Depth = std::int32_t;

// The depths in (from, to] of a path.
struct DepthRange {
  Depth from;
  Depth to;
  bool operator==(const DepthRange&) const = default;
};

// A fixed number of token slots of KV over all attention layers.
enum class PageId : std::uint32_t {};

// The same of the layers with a sliding window, which have pages of their own.
enum class WindowPageId : std::uint32_t {};

// One recurrent state over all recurrent layers: a running sequence's, or a checkpoint's.
enum class RowId : std::uint32_t {};

// A tree of its own: model fingerprint + cache salt + adapter. Namespaces never share.
enum class NamespaceId : std::uint32_t {};

// One request inside the engine; never reused within a process.
enum class RequestId : std::uint64_t {};

template <class Id>
constexpr auto index_of(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace stemma
