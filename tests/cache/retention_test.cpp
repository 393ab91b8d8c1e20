// A request's priority and retention time are those of what it stores, not only of what it finds.

#include <numeric>
#include <variant>

#include "simulated_engine.h"

namespace stemma {
namespace {

class Retained : public ::testing::Test {
 protected:
  static CacheConfig config() {
    CacheConfig config;
    config.page_count = 24;
    config.row_count = 6;
    config.eviction = "priority";
    return config;
  }

  // A request of 100 tokens that nobody sent before, at a time. How much of it was reused.
  Depth visit(Token first, std::uint8_t priority, double retention, double now) {
    std::vector<Token> tokens(100);
    std::iota(tokens.begin(), tokens.end(), first);
    SimulatedEngine::Sequence sequence{
        ns_,
        std::get<Lease>(cache_->acquire({.ns = ns_,
                                         .tokens = tokens,
                                         .message_ends = {},
                                         .priority = priority,
                                         .retention_seconds = retention,
                                         .now_seconds = now})),
        100};
    const Depth hit = sequence.lease.hit();
    engine_.restore(sequence);
    engine_.compute(sequence, 100);
    sequence.lease.publish(100);
    std::move(sequence.lease).finish();
    EXPECT_EQ(cache_->verify(), std::nullopt);
    return hit;
  }

  SimulatedEngine engine_{config()};
  std::unique_ptr<Cache> cache_ = Cache::create(config()).value();
  NamespaceId ns_ = cache_->namespace_for("model");
};

TEST_F(Retained, WhatAnImportantRequestStoredStaysWhileOthersPass) {
  visit(0, 90, 0, 1);
  for (Token other = 1; other <= 8; ++other) visit(1000 * other, 10, 0, 1 + other);
  EXPECT_EQ(visit(0, 90, 0, 20), 99);
}

TEST_F(Retained, WithoutAPriorityItWouldGo) {
  visit(0, kDefaultPriority, 0, 1);
  for (Token other = 1; other <= 8; ++other) visit(1000 * other, kDefaultPriority, 0, 1 + other);
  EXPECT_EQ(visit(0, kDefaultPriority, 0, 20), 0);
}

TEST_F(Retained, ItStaysForItsTimeOnly) {
  visit(0, 90, 5, 1);
  for (Token other = 1; other <= 4; ++other) visit(1000 * other, kDefaultPriority, 0, 2);
  EXPECT_EQ(visit(0, 90, 5, 3), 99);
  for (Token other = 5; other <= 12; ++other) visit(1000 * other, kDefaultPriority, 0, 100);
  EXPECT_EQ(visit(0, 90, 5, 101), 0);
}

}  // namespace
}  // namespace stemma
