#pragma once
// Random operations on a cache of a random kind: sequences that come, share prefixes, compute,
// publish, grow, are put off, finish and are dropped; namespaces that come and go; flushes. After
// each one everything that can be known in O(1) is checked, from time to time all of it.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cache_accounts.h"
#include "cache_reference.h"
#include "checked_policy.h"
#include "simulated_engine.h"

namespace stemma {

inline constexpr std::array kPolicies{"value",    "lru",     "lfu",       "slru",
                                      "priority", "marconi", "marconi:0", "seglen"};

enum class Memory { tight, shared_budget, plentiful };  // plentiful: nothing is ever evicted
// Which layers a model has: bits.
enum class Model {
  attention = 1,
  recurrent = 2,
  both = 3,
  window = 4,
  window_attention = 5,
  window_recurrent = 6,
  all = 7,
};
inline bool has(Model model, Model layers) {
  return (static_cast<int>(model) & static_cast<int>(layers)) != 0;
}
inline constexpr std::array kModels{
    Model::attention,        Model::recurrent,        Model::both, Model::window,
    Model::window_attention, Model::window_recurrent, Model::all};

struct LoadSetting {
  CacheConfig config;
  Memory memory;
  Depth longest;  // sequence
  int alphabet;   // 1: every prompt is a prefix of every other; large: prompts part once
  std::size_t
      stems;  // sequences that new prompts may start like; few: the same edges are cut again
  std::size_t most_running;
  int namespaces;
  bool visitors;  // other namespaces come and go
  bool checked_policy;
};

inline void PrintTo(const LoadSetting& s, std::ostream* out) {
  const CacheConfig& c = s.config;
  const SnapshotSettings& n = c.snapshot;
  *out << c.eviction << ", strategy " << static_cast<int>(c.strategy) << ", pages " << c.page_count
       << " of " << c.page_size << " tokens and " << c.page_bytes << " bytes, rows " << c.row_count
       << " of " << c.row_bytes << " bytes, window " << c.window << " in " << c.window_page_count
       << " pages of " << c.window_page_bytes << " bytes, steps of " << c.window_step << ", budget "
       << c.budget_bytes << ", grid " << c.state_grid << ", wait " << c.wait_threshold
       << ", intervals " << n.periodic_interval << "/" << n.idle_interval << "/"
       << n.generation_interval << ", ladder " << n.ladder_start << ", offsets "
       << n.offsets_from_start.size() << "+" << n.offsets_from_end.size() << ", branch "
       << n.branch_snapshot << ", message " << n.message_snapshot << ", repeat "
       << n.repeat_snapshot << ", end " << n.end_snapshot << ", share " << n.path_share
       << ", longest " << s.longest << ", alphabet " << s.alphabet << ", stems " << s.stems
       << ", running " << s.most_running << ", namespaces " << s.namespaces
       << (s.visitors ? "+" : "") << (s.checked_policy ? ", checked policy" : "");
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::size_t index(std::size_t size) { return random_() % size; }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937_64 random_;
};

inline LoadSetting random_setting(Random& random, Model model, Memory memory) {
  LoadSetting s{};
  CacheConfig& c = s.config;
  s.memory = memory;
  s.longest = random.of<Depth>({12, 40, 40, 60, 150});
  s.alphabet = random.of({1, 2, 2, 3, 50, 100000});
  s.stems = random.of<std::size_t>({2, 10, 40});
  s.most_running = random.of<std::size_t>({1, 3, 6, 12});
  s.namespaces = random.of({1, 2, 5});
  s.visitors = random.one_in(3);
  s.checked_policy = random.one_in(2);

  c.eviction = kPolicies[random.index(kPolicies.size())];
  c.strategy = random.of({SchedulerStrategy::automatic, SchedulerStrategy::no_buffer,
                          SchedulerStrategy::extra_buffer, SchedulerStrategy::extra_buffer_lazy});
  c.page_size = random.of({1, 2, 3, 4, 5, 7, 16, 64, 256});
  c.state_grid = random.of<Depth>({1, 1, 2, 4, 7});
  c.wait_threshold = random.of<Depth>({1, 4, 4, 16, 1000});
  c.cost.per_token_and_depth = random.of({0.0, 0.01, 1.0});
  c.page_bytes = random.of<std::uint64_t>({1, 3, 16});
  c.row_bytes = random.of<std::uint64_t>({1, 10, 37});
  c.snapshot = {.periodic_interval = random.of<Depth>({0, 8, 16}),
                .idle_interval = random.of<Depth>({0, 3}),
                .generation_interval = random.of<Depth>({0, 1, 8}),
                .ladder_start = random.of<Depth>({0, 1, 8}),
                .offsets_from_start = {},
                .offsets_from_end = {},
                .branch_snapshot = !random.one_in(4),
                .message_snapshot = !random.one_in(4),
                .repeat_snapshot = !random.one_in(4),
                .end_snapshot = !random.one_in(4),
                .path_share = random.of({0.1, 0.5, 1.0})};
  if (random.one_in(4)) c.snapshot.offsets_from_start = {5, 20};
  if (random.one_in(4)) c.snapshot.offsets_from_end = {0, 3};

  const auto pages = static_cast<std::uint32_t>((s.longest + c.page_size - 1) / c.page_size);
  const auto some = [&](std::uint32_t least) {
    return least + static_cast<std::uint32_t>(random.index(4 * least + 1));
  };
  if (has(model, Model::attention))
    c.page_count = memory == Memory::plentiful ? 1000 * pages : some(pages);
  std::uint32_t window_pages = 0;  // of one sequence
  if (has(model, Model::window)) {
    c.window = random.of<Depth>({1, 2, 3, 5, 8, 17, 40, 1000});
    c.window_step = random.of<Depth>({1, 2, 4, 16, 512});
    c.window_page_bytes = random.of<std::uint64_t>({1, 3, 16});
    const int stretch = c.window + c.window_step;
    window_pages =
        std::min(pages, static_cast<std::uint32_t>((stretch + c.page_size - 2) / c.page_size + 1));
    c.window_page_count = memory == Memory::plentiful ? 1000 * pages : some(window_pages);
  }
  if (has(model, Model::recurrent))
    c.row_count =
        memory == Memory::plentiful ? 12000 : random.of<std::uint32_t>({1, 2, 2, 3, 6, 8, 30});
  if (memory == Memory::shared_budget) {
    // Room for one sequence at least, and counts that can not all be resident.
    if (has(model, Model::attention)) c.budget_bytes += some(pages) * c.page_bytes;
    if (has(model, Model::window)) c.budget_bytes += some(window_pages) * c.window_page_bytes;
    if (has(model, Model::recurrent))
      c.budget_bytes += c.row_bytes * random.of<std::uint64_t>({1, 2, 5, 20});
    const auto most = [&](std::uint64_t bytes) {
      return static_cast<std::uint32_t>(c.budget_bytes / bytes);
    };
    if (has(model, Model::attention)) c.page_count = most(c.page_bytes);
    if (has(model, Model::window)) c.window_page_count = most(c.window_page_bytes);
    if (has(model, Model::recurrent)) c.row_count = most(c.row_bytes);
  }
  return s;
}

class RandomLoad {
 public:
  RandomLoad(const LoadSetting& setting, Random& random)
      : setting_(setting),
        config_(setting.config),
        random_(random),
        engine_(config_),
        cache_(make_cache(setting, policy_)),
        reference_(config_),
        accounts_(config_) {}

  // Checks all there is after every `thorough_every` operations. Stops at the first failure.
  void run(int operations, int thorough_every) {
    for (int operation = 1; operation <= operations; ++operation) {
      one();
      check_numbers();
      if (operation % thorough_every == 0) check_all();
      if (testing::Test::HasFailure()) FAIL() << "in operation " << operation;
    }
    while (!running_.empty()) end(0, false);
    flush();
    check_all();
  }

  const Cache& cache() const { return *cache_; }

 private:
  struct Running : SimulatedEngine::Sequence {
    std::uint64_t number;
  };
  struct Key {
    NamespaceId ns;
    std::vector<Token> asked;  // last
  };

  static std::unique_ptr<Cache> make_cache(const LoadSetting& setting,
                                           const CheckedPolicy*& watch) {
    if (!setting.checked_policy) return Cache::create(setting.config).value();
    auto policy =
        std::make_unique<CheckedPolicy>(make_eviction_policy(setting.config.eviction).value());
    watch = policy.get();
    return Cache::create(setting.config, std::move(policy)).value();
  }
  bool plentiful() const { return setting_.memory == Memory::plentiful; }
  bool states() const { return config_.row_count > 0; }
  // How deep a lease may compute in its next step.
  Depth reach(const Lease& lease) const {
    const auto length = static_cast<Depth>(lease.tokens().size());
    return config_.window > 0 ? std::min(length, lease.computed() + config_.window_step) : length;
  }
  bool takes_marks() const { return states() && config_.strategy != SchedulerStrategy::no_buffer; }

  void one() {
    const int kind = random_.below(1000);
    if (running_.empty() || (kind < 220 && running_.size() < setting_.most_running)) {
      acquire();
    } else if (kind < 870) {
      step(random_.index(running_.size()));
    } else if (kind < 995 || plentiful()) {
      end(random_.index(running_.size()), !random_.one_in(4));
    } else {
      flush();
    }
  }

  // Most prompts start like an earlier sequence.
  std::vector<Token> prompt() {
    std::vector<Token> tokens;
    if (!stems_.empty() && !random_.one_in(4)) {
      tokens = stems_[random_.index(stems_.size())];
      tokens.resize(random_.index(tokens.size() + 1));
    }
    const int tail = random_.one_in(2) ? random_.below(3) : random_.below(setting_.longest);
    for (int i = 0; i < tail; ++i) tokens.push_back(random_.below(setting_.alphabet));
    if (tokens.empty()) tokens.push_back(0);
    tokens.resize(std::min<std::size_t>(tokens.size(), setting_.longest));
    return tokens;
  }

  // A key that keeps its id as long as anything is cached under it.
  NamespaceId some_namespace(std::span<const Token> tokens) {
    const bool visitor = setting_.visitors && random_.one_in(3);
    const std::string name = visitor
                                 ? "visitor " + std::to_string(visitors_ += random_.below(2))
                                 : "model " + std::to_string(random_.below(setting_.namespaces));
    const NamespaceId ns = cache_->namespace_for(name);
    const auto [place, is_new] = keys_.try_emplace(name);
    Key& key = place->second;
    if (is_new || key.ns != ns) {
      EXPECT_TRUE(newest_ == nullptr || index_of(ns) > index_of(newest_->ns))
          << "ids are not reused";
      if (!is_new) {
        EXPECT_EQ(cache_->lookup(key.ns, key.asked).matched, 0)
            << name << " was forgotten too early";
        EXPECT_TRUE(std::none_of(running_.begin(), running_.end(),
                                 [&](const Running& other) { return other.ns == key.ns; }));
      }
      newest_ = &key;
    }
    key = {ns, {tokens.begin(), tokens.end()}};
    return ns;
  }

  void acquire() {
    const std::vector<Token> tokens = prompt();
    const auto length = static_cast<Depth>(tokens.size());
    if (!cache_->fits(length)) {
      ASSERT_NE(setting_.memory, Memory::plentiful);
      return;
    }
    const NamespaceId ns = some_namespace(tokens);
    std::vector<Depth> ends;
    for (Depth depth = 1; depth < length; ++depth) {
      if (random_.one_in(9)) ends.push_back(depth);
    }
    now_ += random_.below(3);
    AcquireRequest request{.ns = ns, .tokens = tokens, .message_ends = ends, .now_seconds = now_};
    if (random_.one_in(4)) {
      request.priority = static_cast<std::uint8_t>(random_.below(101));
      request.retention_seconds = random_.below(20);
    }

    const std::vector<std::uint64_t> hashes = prefix_hashes(ns, tokens);
    const Lookup expected = cache_->lookup(ns, tokens);
    const CacheStats before = cache_->stats();
    ASSERT_EQ(reference_.differs(hashes, expected, before), std::nullopt);
    check_reason(expected, length);
    if (random_.one_in(8)) check_explanation(cache_->explain(request), expected);

    auto answer = cache_->acquire(request);
    if (const auto* reason = std::get_if<WaitReason>(&answer)) {
      const CacheStats after = cache_->stats();
      ASSERT_EQ(before.checkpoints, after.checkpoints);
      ASSERT_EQ(before.cached_tokens, after.cached_tokens);
      ASSERT_EQ(before.pages.free, after.pages.free);
      ASSERT_EQ(before.window_pages.free, after.window_pages.free);
      ASSERT_EQ(before.evicted_window_pages, after.evicted_window_pages);
      ASSERT_EQ(before.rows.free, after.rows.free);
      ASSERT_FALSE(running_.empty()) << "it waits for nobody";
      if (*reason == WaitReason::prefix_in_flight) {
        ASSERT_TRUE(std::any_of(running_.begin(), running_.end(), [&](Running& other) {
          return computes_prefix(other, ns, hashes);
        }));
      } else {
        ASSERT_FALSE(plentiful());
      }
      return;
    }

    Lease& lease = std::get<Lease>(answer);
    ASSERT_EQ(lease.lookup().matched, expected.matched);
    ASSERT_EQ(lease.lookup().usable, expected.usable);
    ASSERT_EQ(lease.lookup().limit, expected.limit);
    ASSERT_LE(lease.hit(), expected.usable);
    if (!running_.empty() || plentiful()) {
      ASSERT_EQ(lease.hit(), expected.usable);
    }
    ASSERT_LT(lease.hit(), length);
    running_.push_back({{ns, std::move(lease), length}, ++last_number_});
    Running& sequence = running_.back();
    ASSERT_EQ(sequence.lease.pages().size(),
              config_.page_count > 0 ? (length + config_.page_size - 1) / config_.page_size : 0);
    if (config_.window > 0) {
      const WindowPages window = sequence.lease.window_pages();
      const Depth from = std::max(0, sequence.lease.hit() - config_.window);
      ASSERT_EQ(window.first, static_cast<std::size_t>(from / config_.page_size));
      ASSERT_EQ(window.first + window.ids.size(),
                static_cast<std::size_t>((reach(sequence.lease) + config_.page_size - 1) /
                                         config_.page_size));
    }
    if (!random_.one_in(4)) restore(sequence);
    accounts_.update(sequence.number, sequence);
    note_cooled();
  }

  static bool computes_prefix(Running& other, NamespaceId ns,
                              const std::vector<std::uint64_t>& hashes) {
    const std::vector<std::uint64_t>& theirs = SimulatedEngine::hashes(other);
    std::size_t common = 0;
    while (common + 2 < hashes.size() && common + 1 < theirs.size() &&
           hashes[common + 1] == theirs[common + 1])
      ++common;
    return other.ns == ns && other.lease.computed() < other.prompt_length &&
           other.lease.computed() < static_cast<Depth>(common);
  }

  void check_reason(const Lookup& lookup, Depth length) {
    const Depth most = std::min(lookup.matched, length - 1);
    ASSERT_EQ(lookup.limit == ReuseLimit::whole_prompt, lookup.usable == length - 1);
    const bool state = lookup.limit == ReuseLimit::state_evicted ||
                       lookup.limit == ReuseLimit::state_not_stored ||
                       lookup.limit == ReuseLimit::below_grid;
    const bool window = lookup.limit == ReuseLimit::window_evicted;
    ASSERT_TRUE(!state || states());
    ASSERT_TRUE(!window || config_.window > 0);
    const bool kv = config_.page_count > 0;  // else paths go with the last that is kept there
    ASSERT_TRUE(state || window ? lookup.usable < most || !kv : lookup.usable == most);
    if (plentiful()) {
      ASSERT_FALSE(window);
      ASSERT_NE(lookup.limit, ReuseLimit::kv_evicted);
      ASSERT_NE(lookup.limit, ReuseLimit::state_evicted);
    }
  }

  void check_explanation(const Explanation& explanation, const Lookup& lookup) {
    ASSERT_EQ(explanation.lookup.matched, lookup.matched);
    ASSERT_EQ(explanation.lookup.usable, lookup.usable);
    ASSERT_EQ(explanation.lookup.limit, lookup.limit);
    if (states() && lookup.usable > 0) {
      ASSERT_TRUE(std::binary_search(explanation.checkpoints.begin(), explanation.checkpoints.end(),
                                     lookup.usable));
    }
    if (config_.window > 0) {
      // The window limits where all else could be restored at a deeper place.
      const Depth most = std::min(lookup.matched, explanation.length - 1);
      const auto& stored = explanation.checkpoints;
      const bool deeper = states()
                              ? std::upper_bound(stored.begin(), stored.end(), most) !=
                                    std::upper_bound(stored.begin(), stored.end(), lookup.usable)
                              : lookup.usable < most;
      ASSERT_EQ(lookup.limit == ReuseLimit::window_evicted,
                deeper || (lookup.limit == ReuseLimit::window_evicted && lookup.usable == most));
    }
    Depth before = -1;
    for (const DepthRange range : explanation.window) {
      ASSERT_GT(range.from, before) << "they are apart";
      ASSERT_GT(range.to, range.from);
      ASSERT_LE(range.to, lookup.matched);
      before = range.to;
    }
    ASSERT_TRUE(takes_marks() || explanation.planned.empty());
    for (const PlannedMark& mark : explanation.planned) {
      ASSERT_GT(mark.depth, lookup.usable);
      ASSERT_LE(mark.depth, explanation.length);
      ASSERT_EQ(mark.depth % config_.state_grid, 0);
    }
  }

  void restore(Running& sequence) {
    give_back_memory();
    engine_.restore(sequence);
  }
  // Before copies and steps, slots that were cooled lose their content.
  void give_back_memory() {
    note_cooled();
    engine_.release(pending_);
    pending_ = {};
  }
  void note_cooled() {
    const Cache::Cooled cooled = cache_->take_cooled();
    accounts_.cooled(cooled);
    pending_.pages.insert(pending_.pages.end(), cooled.pages.begin(), cooled.pages.end());
    pending_.window_pages.insert(pending_.window_pages.end(), cooled.window_pages.begin(),
                                 cooled.window_pages.end());
    pending_.rows.insert(pending_.rows.end(), cooled.rows.begin(), cooled.rows.end());
  }

  // One step of a running sequence: restore what is not restored, grow by a token if all are
  // computed, compute a random number of tokens, then publish or not.
  void step(std::size_t index) {
    Running& sequence = running_[index];
    Lease& lease = sequence.lease;
    if (!sequence.restored) restore(sequence);
    if (lease.computed() == static_cast<Depth>(lease.tokens().size())) {
      if (lease.computed() == setting_.longest) return end(index, true);
      lease.append(random_.below(setting_.alphabet));
    }
    const auto length = static_cast<Depth>(lease.tokens().size());
    const Depth furthest = reach(lease);
    const std::uint32_t pinned = cache_->stats().rows.pinned;
    const bool room = lease.reserve(furthest);
    if (cache_->stats().rows.pinned < pinned) {  // rows for its own marks gave way
      ASSERT_EQ(setting_.memory, Memory::shared_budget);
      sequence.prepared.clear();
      sequence.written.clear();
    }
    accounts_.update(sequence.number, sequence);
    note_cooled();
    if (running_.size() == 1) {
      ASSERT_TRUE(room || !cache_->fits(length)) << "a lone lease grows as far as fits() says";
      ASSERT_TRUE(!room || config_.window > 0 || cache_->fits(length)) << "and no further";
    }
    if (!room) return end(index, true);

    const Depth to = lease.computed() + 1 + random_.below(furthest - lease.computed());
    engine_.prepare(sequence, to);
    accounts_.update(sequence.number, sequence);
    give_back_memory();
    for (const LeaseMark& mark : sequence.prepared) {
      ASSERT_TRUE(takes_marks());
      ASSERT_TRUE(mark.depth > sequence.prompt_length || mark.depth % config_.state_grid == 0);
    }
    const int outcome = random_.below(8);
    if (outcome == 0) return;  // it is put off, and prepared again later
    engine_.compute_prepared(sequence, to);
    sequence.written.insert(sequence.written.end(), sequence.prepared.begin(),
                            sequence.prepared.end());
    sequence.prepared.clear();
    const std::size_t window_first = lease.window_pages().first;
    if (outcome == 1) {
      lease.advance(to);
      // Pages are let go when they are published, and at no other time.
      if (lease.window_pages().first != window_first) note_published(sequence, window_first);
    } else {
      lease.publish(to);
      note_published(sequence, window_first);
    }
    accounts_.update(sequence.number, sequence);
    engine_.check(sequence);
  }

  void note_published(Running& sequence, std::size_t window_first) {
    const std::vector<std::uint64_t>& hashes = SimulatedEngine::hashes(sequence);
    reference_.publish(hashes, sequence.lease.computed(), window_first,
                       cache_->stats().evicted_window_pages);
    for (const LeaseMark& mark : sequence.written) reference_.store(hashes[mark.depth]);
    sequence.written.clear();
  }

  // A sequence finishes, or its client goes away.
  void end(std::size_t index, bool finish) {
    std::swap(running_[index], running_.back());
    Running sequence = std::move(running_.back());
    running_.pop_back();
    accounts_.end(sequence.number);
    if (stems_.size() < setting_.stems) stems_.emplace_back();
    const std::span<const Token> tokens = sequence.lease.tokens();
    stems_[random_.index(stems_.size())].assign(tokens.begin(), tokens.end());
    if (sequence.lease.computed() > 0) reference_.remember(sequence.ns, tokens);
    if (!finish) return;
    if (sequence.restored) {
      note_published(sequence, sequence.lease.window_pages().first);
      const Depth depth = sequence.lease.computed();
      if (states() && config_.snapshot.end_snapshot && depth > 0)
        reference_.store(SimulatedEngine::hashes(sequence)[depth]);
    }
    std::move(sequence.lease).finish();
  }

  void flush() {
    cache_->flush();
    const CacheStats stats = cache_->stats();
    ASSERT_EQ(stats.pages.evictable, 0u) << "what no lease holds is gone";
    ASSERT_EQ(stats.window_pages.evictable, 0u);
    ASSERT_EQ(stats.rows.evictable, 0u);
    if (!running_.empty()) return;
    ASSERT_EQ(stats.nodes, 0u);
    ASSERT_EQ(stats.cached_tokens, 0u);
    ASSERT_EQ(stats.checkpoints, 0u);
    ASSERT_EQ(stats.pages.free, config_.page_count);
    ASSERT_EQ(stats.window_pages.free, config_.window_page_count);
    ASSERT_EQ(stats.rows.free, config_.row_count);
  }

  void check_numbers() {
    const CacheStats stats = cache_->stats();
    ASSERT_EQ(accounts_.differ(stats), std::nullopt);
    ASSERT_EQ(reference_.miscounted(stats), std::nullopt);
    if (policy_) {  // window pages and states are entries one by one, if nobody uses them
      const bool window = config_.window > 0;
      const int states_kind = window + (config_.page_count > 0);
      if (window) {
        ASSERT_EQ(policy_->known(0), stats.window_pages.evictable);
      }
      if (states()) {
        ASSERT_EQ(policy_->known(static_cast<EntryKind>(states_kind)), stats.rows.evictable);
      }
    }
    if (plentiful() && !running_.empty()) {
      ASSERT_EQ(stats.evicted_pages + stats.evicted_window_pages + stats.evicted_checkpoints, 0u);
    }
  }

  void check_all() {
    ASSERT_EQ(cache_->verify(), std::nullopt);
    ASSERT_EQ(reference_.refresh(*cache_, running_), std::nullopt);
    for (Running& sequence : running_) engine_.check(sequence);
  }

  const LoadSetting setting_;
  const CacheConfig config_;
  Random& random_;
  SimulatedEngine engine_;
  const CheckedPolicy* policy_ = nullptr;  // if there is one
  const std::unique_ptr<Cache> cache_;
  CacheReference reference_;
  CacheAccounts accounts_;
  Cache::Cooled pending_;  // not yet given back
  std::map<std::string, Key> keys_;
  const Key* newest_ = nullptr;
  int visitors_ = 0;
  std::vector<std::vector<Token>> stems_;
  std::vector<Running> running_;
  std::uint64_t last_number_ = 0;
  double now_ = 0;
};

}  // namespace stemma
