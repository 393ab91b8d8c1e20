// Memory carries a lease's restore plan out on a device's buffers. The device here keeps a log of
// what it is told.

#include "memory/memory.h"

#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stemma {
namespace {

using Log = std::vector<std::string>;

std::string text(PageId page) { return "page " + std::to_string(index_of(page)); }
std::string text(RowId row) { return "row " + std::to_string(index_of(row)); }

class LoggedPages final : public PageBuffer {
 public:
  explicit LoggedPages(Log& log) : log_(log) {}
  void copy_page(PageId from, PageId to, int slots) override {
    log_.push_back("copy " + std::to_string(slots) + " of " + text(from) + " to " + text(to));
  }
  void release(PageId page) override { log_.push_back("release " + text(page)); }
  void populate(std::size_t count) override {
    if (count > 0) log_.push_back("populate " + std::to_string(count) + " pages");
  }

 private:
  Log& log_;
};

class LoggedStates final : public StateBuffer {
 public:
  explicit LoggedStates(Log& log) : log_(log) {}
  void clear_row(RowId row) override { log_.push_back("clear " + text(row)); }
  void copy_row(RowId from, RowId to) override {
    log_.push_back("copy " + text(from) + " to " + text(to));
  }
  void release(RowId row) override { log_.push_back("release " + text(row)); }
  void populate(std::size_t count) override {
    if (count > 0) log_.push_back("populate " + std::to_string(count) + " rows");
  }

 private:
  Log& log_;
};

class LoggedDevice final : public Device {
 public:
  std::string description() const override { return "a log"; }
  std::string kernel_identity() const override { return "none"; }
  std::unique_ptr<WeightStore> make_weight_store() override { return nullptr; }
  std::size_t release_granularity() const override { return 4096; }
  Result<std::unique_ptr<PageBuffer>> make_pages(const KvLayout&, std::size_t count) override {
    if (count > most_pages)
      return fail(ErrorCode::out_of_memory, {{"bytes", "1"}, {"what", "pages"}});
    return std::make_unique<LoggedPages>(log);
  }
  Result<std::unique_ptr<StateBuffer>> make_states(const StateLayout&, std::size_t) override {
    return std::make_unique<LoggedStates>(log);
  }
  void run(const Step&, StepMemory, const std::function<Tensor(Ops&)>&, std::span<float>) override {
  }

  Log log;
  std::size_t most_pages = 100;
};

TEST(Memory, RestoresALeaseAndTellsIt) {
  LoggedDevice device;
  const auto memory =
      Memory::create(
          device, {}, {},
          {.page_count = 10, .row_count = 10, .page_bytes = 1, .row_bytes = 1, .explanation = ""})
          .value();
  CacheConfig config;
  config.page_count = 10;
  config.row_count = 10;
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("model");
  std::vector<Token> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);
  {
    auto fresh = std::get<Lease>(cache->acquire({ns, tokens, {}}));
    memory->restore(fresh);
    EXPECT_THAT(device.log, testing::ElementsAre("clear " + text(*fresh.state_row())));
    fresh.prepare_marks(40);
    fresh.publish(40);
    std::move(fresh).finish();
  }

  device.log.clear();
  auto repeat = std::get<Lease>(cache->acquire({ns, tokens, {}}));
  ASSERT_EQ(repeat.hit(), 39);
  const RowId state = *repeat.restore_plan().state_from;
  const PageId page = repeat.restore_plan().page_copy->from;
  const std::uint32_t pinned = cache->stats().rows.pinned;
  memory->restore(repeat);
  EXPECT_THAT(device.log,
              testing::ElementsAre("copy " + text(state) + " to " + text(*repeat.state_row()),
                                   "copy 8 of " + text(page) + " to " + text(repeat.pages()[2])));
  EXPECT_EQ(cache->stats().rows.pinned, pinned - 1) << "the checkpoint may be evicted again";
}

TEST(Memory, GivesBackWhatTheCacheCooled) {
  LoggedDevice device;
  const auto memory =
      Memory::create(
          device, {}, {},
          {.page_count = 10, .row_count = 10, .page_bytes = 1, .row_bytes = 1, .explanation = ""})
          .value();
  memory->release({.pages = {PageId{3}, PageId{1}}, .rows = {RowId{2}}});
  EXPECT_THAT(device.log,
              testing::ElementsAre("release page 3", "release page 1", "release row 2"));
}

TEST(Memory, TakesWhatTheSplitWantsFromTheStart) {
  LoggedDevice device;
  const auto memory = Memory::create(device, {}, {},
                                     {.page_count = 10,
                                      .row_count = 10,
                                      .page_bytes = 1,
                                      .row_bytes = 1,
                                      .explanation = "",
                                      .warm_pages = 7,
                                      .warm_rows = 3})
                          .value();
  EXPECT_THAT(device.log, testing::ElementsAre("populate 7 pages", "populate 3 rows"));
}

TEST(Memory, SaysWhenTheDeviceHasNoRoom) {
  LoggedDevice device;
  const auto memory = Memory::create(
      device, {}, {},
      {.page_count = 101, .row_count = 1, .page_bytes = 1, .row_bytes = 1, .explanation = ""});
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code(), ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace stemma
