// Least recently used: entries in order of their last use, deeper ones first among those of one
// use, since a path is used as a whole and only its end can go without taking the rest along.

#include "cache/eviction_policy.h"

#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

namespace stemma {

namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  void insert(EntryId entry, const EntryInfo& info) override {
    const Key key{info.last_used, -info.depth, entry};
    if (keys_.emplace(entry, key).second) order_.insert(key);
  }

  void touch(EntryId entry, const EntryInfo& info) override {
    erase(entry);
    insert(entry, info);
  }

  void erase(EntryId entry) override {
    const auto found = keys_.find(entry);
    if (found == keys_.end()) return;
    order_.erase(found->second);
    keys_.erase(found);
  }

  std::optional<EntryId> victim() const override {
    if (order_.empty()) return std::nullopt;
    return std::get<EntryId>(*order_.begin());
  }

 private:
  using Key = std::tuple<std::uint64_t, Depth, EntryId>;  // last use, negated depth, entry
  std::set<Key> order_;
  std::unordered_map<EntryId, Key> keys_;
};

}  // namespace

Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name) {
  if (name == "lru") return std::make_unique<LruPolicy>();
  return fail(ErrorCode::cache_unknown_policy, {{"name", std::string(name)}, {"known", "lru"}});
}

}  // namespace stemma
