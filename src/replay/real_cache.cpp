#include "replay/real_cache.h"

#include <utility>

namespace stemma::replay {

namespace {

struct Moved {
  std::uint64_t restored_states = 0;
  std::uint64_t copied_pages = 0;
  std::uint64_t ended_states = 0;
};

class LeasedRequest : public RunningRequest {
 public:
  LeasedRequest(Lease lease, const Demand& demand, Moved& moved)
      : lease_(std::move(lease)), demand_(demand), moved_(moved) {
    const RestorePlan& plan = lease_.restore_plan();
    if (plan.state_from) ++moved_.restored_states;
    if (plan.page_copy) ++moved_.copied_pages;
    lease_.restored();
  }

  Depth hit() const override { return lease_.hit(); }

  void prefilled(Depth to) override {
    lease_.prepare_marks(to);
    lease_.publish(to);
  }

  bool start_answer() override {
    if (!lease_.reserve(static_cast<Depth>(demand_.path.size()))) return false;
    for (const Token unit : demand_.path.subspan(static_cast<std::size_t>(demand_.prompt)))
      lease_.append(unit);
    return true;
  }

  void finish() override {
    const auto end = static_cast<Depth>(lease_.tokens().size());
    if (lease_.computed() >= demand_.prompt && end > lease_.computed()) {
      lease_.prepare_marks(end);
      lease_.advance(end);
    }
    if (lease_.state_row()) ++moved_.ended_states;
    std::move(lease_).finish();
  }

 private:
  Lease lease_;
  const Demand demand_;
  Moved& moved_;
};

class RealCache : public CacheModel {
 public:
  explicit RealCache(std::unique_ptr<Cache> cache)
      : cache_(std::move(cache)), namespace_(cache_->namespace_for("replay")) {}

  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    const auto prompt = demand.path.first(static_cast<std::size_t>(demand.prompt));
    auto outcome = cache_->acquire({.ns = namespace_, .tokens = prompt});
    if (const auto* reason = std::get_if<WaitReason>(&outcome)) return *reason;
    return std::make_unique<LeasedRequest>(std::get<Lease>(std::move(outcome)), demand, moved_);
  }

  bool fits(Depth units) const override { return cache_->fits(units); }

  CacheModelStats stats() const override {
    const CacheStats cache = cache_->stats();
    CacheModelStats stats;
    stats.restored_states = moved_.restored_states;
    stats.copied_pages = moved_.copied_pages;
    stats.stored_states = cache.marks_taken + moved_.ended_states;
    stats.skipped_marks = cache.marks_skipped;
    stats.evicted_pages = cache.evicted_pages;
    stats.evicted_states = cache.evicted_checkpoints;
    stats.limits = cache.limits;
    stats.metadata_bytes = cache.metadata_bytes;
    stats.cached_units = cache.cached_tokens;
    stats.nodes = cache.nodes;
    stats.checkpoints = cache.checkpoints;
    return stats;
  }

 private:
  std::unique_ptr<Cache> cache_;
  NamespaceId namespace_;
  Moved moved_;
};

}  // namespace

Result<std::unique_ptr<CacheModel>> make_real_cache(const CacheConfig& config) {
  STEMMA_TRY(auto cache, Cache::create(config));
  return std::make_unique<RealCache>(std::move(cache));
}

}  // namespace stemma::replay
