// Random operations on a cache, checked after each one against three things:
// the cache's own invariants, the content of every page and state row that a
// lease reads (simulated_engine.h), and a reference that remembers everything:
// the cache never claims more than it, and exactly as much where memory is
// plentiful.

#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>

#include "simulated_engine.h"

namespace stemma {
namespace {

struct Setting {
  int page_size;
  std::uint32_t pages;
  std::uint32_t rows;
  int alphabet;
  Depth longest;
  bool plentiful;  // nothing is ever evicted
  int operations;
};

void PrintTo(const Setting& s, std::ostream* out) {
  *out << "page_size " << s.page_size << ", pages " << s.pages << ", rows " << s.rows
       << ", alphabet " << s.alphabet;
}

// All prefixes that were published and all at which a checkpoint was stored, by
// hash.
struct Reference {
  std::set<std::uint64_t> prefixes;
  std::set<std::uint64_t> checkpoints;

  Lookup lookup(const std::vector<std::uint64_t>& hashes, bool states) const {
    const auto length = static_cast<Depth>(hashes.size()) - 1;
    Lookup found{};
    while (found.matched < length && prefixes.contains(hashes[found.matched + 1])) ++found.matched;
    found.usable = std::min(found.matched, length - 1);
    while (states && found.usable > 0 && !checkpoints.contains(hashes[found.usable]))
      --found.usable;
    return found;
  }
};

class CacheProperty : public testing::TestWithParam<std::tuple<Setting, int>> {
 protected:
  CacheProperty() : setting_(std::get<Setting>(GetParam())), random_(std::get<int>(GetParam())) {
    config_.page_size = setting_.page_size;
    config_.page_count = setting_.pages;
    config_.row_count = setting_.rows;
    config_.wait_threshold = 4;
    config_.snapshot.periodic_interval = 8;
    config_.snapshot.idle_interval = 3;
    config_.snapshot.generation_interval = 8;
    cache_ = Cache::create(config_).value();
    engine_ = std::make_unique<SimulatedEngine>(config_);
    for (int i = 0; i < 2; ++i)
      namespaces_.push_back(cache_->namespace_for("model " + std::to_string(i)));
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool states() const { return setting_.rows > 0; }

  // Half of the prompts start like an earlier sequence.
  std::vector<Token> random_prompt() {
    std::vector<Token> tokens;
    if (!history_.empty() && below(4) > 0) {
      tokens = history_[below(static_cast<int>(history_.size()))];
      tokens.resize(below(static_cast<int>(tokens.size()) + 1));
    }
    const int tail = below(2) == 0 ? below(3) : below(setting_.longest);
    for (int i = 0; i < tail; ++i) tokens.push_back(below(setting_.alphabet));
    if (tokens.empty()) tokens.push_back(0);
    tokens.resize(std::min<std::size_t>(tokens.size(), setting_.longest));
    return tokens;
  }

  void remember(std::span<const Token> tokens) {
    if (history_.size() < 40) history_.emplace_back();
    std::vector<Token>& entry = history_[below(static_cast<int>(history_.size()))];
    entry.assign(tokens.begin(), tokens.end());
  }

  void acquire() {
    const NamespaceId ns = namespaces_[below(2)];
    const std::vector<Token> tokens = random_prompt();
    const auto length = static_cast<Depth>(tokens.size());
    if (!cache_->fits(length)) return;
    std::vector<Depth> ends;
    for (Depth depth = 1; depth < length; ++depth) {
      if (below(9) == 0) ends.push_back(depth);
    }

    const Lookup expected = cache_->lookup(ns, tokens);
    const Lookup reference = reference_.lookup(prefix_hashes(ns, tokens), states());
    ASSERT_LE(expected.matched, reference.matched);
    ASSERT_LE(expected.usable, reference.usable);
    if (setting_.plentiful) {
      ASSERT_EQ(expected.matched, reference.matched);
      ASSERT_EQ(expected.usable, reference.usable);
    }

    const CacheStats before = cache_->stats();
    auto answer = cache_->acquire({ns, tokens, ends});
    if (const auto* reason = std::get_if<WaitReason>(&answer)) {
      ASSERT_FALSE(running_.empty()) << "waits for nobody";
      ASSERT_EQ(before.checkpoints, cache_->stats().checkpoints);
      ASSERT_EQ(before.cached_tokens, cache_->stats().cached_tokens);
      ASSERT_EQ(before.pages.free, cache_->stats().pages.free);
      if (*reason == WaitReason::prefix_in_flight) {
        ASSERT_TRUE(std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
          const auto theirs = prefix_hashes(other.ns, other.lease.tokens());
          Depth common = 0;
          const auto mine = prefix_hashes(ns, tokens);
          while (common < length - 1 && common + 1 < static_cast<Depth>(theirs.size()) &&
                 mine[common + 1] == theirs[common + 1]) {
            ++common;
          }
          return other.ns == ns && other.lease.computed() < other.prompt_length &&
                 other.lease.computed() < common;
        }));
      } else {
        ASSERT_FALSE(setting_.plentiful);
      }
      return;
    }

    Lease& lease = std::get<Lease>(answer);
    ASSERT_EQ(lease.lookup().matched, expected.matched);
    ASSERT_EQ(lease.lookup().usable, expected.usable);
    ASSERT_LE(lease.hit(), expected.usable);
    if (!running_.empty() || setting_.plentiful) {
      ASSERT_EQ(lease.hit(), expected.usable);
    }
    ASSERT_LT(lease.hit(), length);
    running_.push_back({ns, std::move(lease), length});
    ASSERT_EQ(running_.back().lease.pages().size(),
              config_.page_count > 0 ? (length + config_.page_size - 1) / config_.page_size : 0);
    if (below(4) > 0) engine_->restore(running_.back());
  }

  // One step of a random running sequence: restore what is not restored, grow
  // by a token if all are computed, compute a random number of tokens, then
  // publish or not.
  void step() {
    const std::size_t index = below(static_cast<int>(running_.size()));
    SimulatedEngine::Sequence& sequence = running_[index];
    Lease& lease = sequence.lease;
    if (!sequence.restored) engine_->restore(sequence);
    if (lease.computed() == static_cast<Depth>(lease.tokens().size())) {
      if (lease.computed() == setting_.longest) return end(index, true);
      lease.append(below(setting_.alphabet));
    }
    const auto length = static_cast<Depth>(lease.tokens().size());
    const bool room = lease.reserve(length);
    if (running_.size() == 1) {
      ASSERT_EQ(room, cache_->fits(length)) << "a lone lease can grow as far as fits() says";
    }
    if (!room) return end(index, true);

    const Depth to = lease.computed() + 1 + below(length - lease.computed());
    const int outcome = below(8);
    if (outcome == 0) {
      lease.prepare_marks(to);  // the step is put off, and prepared again later
      return;
    }
    const std::vector<Depth> marks = engine_->compute(sequence, to);
    sequence.written.insert(sequence.written.end(), marks.begin(), marks.end());
    if (outcome == 1) {
      lease.advance(to);
    } else {
      lease.publish(to);
      note_published(sequence);
    }
    engine_->check(sequence);
  }

  void note_published(SimulatedEngine::Sequence& sequence) {
    const auto hashes = prefix_hashes(sequence.ns, sequence.lease.tokens());
    reference_.prefixes.insert(hashes.begin() + 1, hashes.begin() + sequence.lease.computed() + 1);
    for (const Depth depth : sequence.written) reference_.checkpoints.insert(hashes[depth]);
    sequence.written.clear();
  }

  // A sequence finishes, or its client goes away.
  void end(std::size_t index, bool finish) {
    SimulatedEngine::Sequence sequence = std::move(running_[index]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    remember(sequence.lease.tokens());
    if (!finish) return;
    if (sequence.restored) {
      note_published(sequence);
      reference_.checkpoints.insert(
          prefix_hashes(sequence.ns, sequence.lease.tokens())[sequence.lease.computed()]);
    }
    std::move(sequence.lease).finish();
  }

  void flush() {
    cache_->flush();
    if (running_.empty()) {
      ASSERT_EQ(cache_->stats().nodes, 0u);
      ASSERT_EQ(cache_->stats().pages.free, setting_.pages);
      ASSERT_EQ(cache_->stats().rows.free, setting_.rows);
    }
  }

  Setting setting_;
  std::mt19937 random_;
  CacheConfig config_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<SimulatedEngine> engine_;
  std::vector<NamespaceId> namespaces_;
  std::vector<std::vector<Token>> history_;
  std::vector<SimulatedEngine::Sequence> running_;
  Reference reference_;
};

TEST_P(CacheProperty, HoldsAfterEveryOperation) {
  for (int operation = 0; operation < setting_.operations; ++operation) {
    const int kind = below(100);
    if (running_.empty() || (kind < 20 && running_.size() < 6)) {
      acquire();
    } else if (kind < 88) {
      step();
    } else if (kind < 99 || setting_.plentiful) {
      end(below(static_cast<int>(running_.size())), below(4) > 0);
    } else {
      flush();
    }
    ASSERT_FALSE(HasFatalFailure()) << "operation " << operation;
    ASSERT_EQ(cache_->verify(), std::nullopt) << "operation " << operation;
    for (const auto& sequence : running_) engine_->check(sequence);
  }
  running_.clear();
  flush();
  ASSERT_FALSE(HasFatalFailure());
  if (!setting_.plentiful && setting_.pages > 0) {
    EXPECT_GT(cache_->stats().evicted_pages, 0u);
  }
  if (setting_.rows != 1) {  // a lone row cannot be both source and target
    EXPECT_GT(cache_->stats().hit_tokens, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Tight, CacheProperty,
                         testing::Combine(testing::Values(Setting{1, 90, 6, 2, 40, false, 5000},
                                                          Setting{3, 30, 6, 2, 40, false, 5000},
                                                          Setting{3, 30, 0, 3, 40, false, 5000},
                                                          Setting{16, 6, 8, 2, 60, false, 5000},
                                                          Setting{16, 4, 1, 2, 60, false, 5000},
                                                          Setting{4, 10, 2, 1, 40, false, 5000},
                                                          Setting{4, 0, 5, 2, 40, false, 5000}),
                                          testing::Range(1, 4)));

INSTANTIATE_TEST_SUITE_P(
    Plentiful, CacheProperty,
    testing::Combine(testing::Values(Setting{1, 30000, 9000, 2, 40, true, 2000},
                                     Setting{16, 8000, 9000, 3, 60, true, 2000},
                                     Setting{5, 20000, 0, 2, 60, true, 2000}),
                     testing::Range(1, 4)));

}  // namespace
}  // namespace stemma
