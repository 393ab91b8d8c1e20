#pragma once
// A device that wraps another and proves exactness while it is used: for every token sequence whose logits it ever computed it
// keeps a hash of their bits, and the same sequence must always give the same bits, whatever the cache, the batch or the
// chunking did. It also follows which tokens each page slot and state row stands for, so that a stale page or a state at a
// wrong depth is reported where it is used.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compute/device.h"

namespace stemma::test {

// What was seen, over any number of devices and engines. Thread-safe.
class LogitsBook {
 public:
  // `sequence`: hash of the tokens whose last one's logits these are.
  void record(std::uint64_t sequence, std::span<const float> logits);
  void complain(std::string text);

  // Sequences that were seen more than once: a test checks that there were some.
  std::size_t repeats() const;
  std::vector<std::string> complaints() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> bits_;
  std::size_t repeats_ = 0;
  std::vector<std::string> complaints_;
};

class RecordingDevice final : public Device {
 public:
  RecordingDevice(std::unique_ptr<Device> inner, LogitsBook& book) : inner_(std::move(inner)), book_(book) {}

  std::string description() const override { return inner_->description(); }
  std::string kernel_identity() const override { return inner_->kernel_identity(); }
  std::unique_ptr<WeightStore> make_weight_store() override { return inner_->make_weight_store(); }
  std::size_t release_granularity() const override { return inner_->release_granularity(); }
  Result<std::unique_ptr<PageBuffer>> make_pages(const KvLayout& layout, std::size_t page_count) override;
  Result<std::unique_ptr<StateBuffer>> make_states(const StateLayout& layout, std::size_t row_count) override;
  void run(const Step& step, StepMemory memory, const std::function<Tensor(Ops&)>& model,
           std::span<float> logits) override;

 private:
  std::unique_ptr<Device> inner_;
  LogitsBook& book_;
};

}  // namespace stemma::test
