#pragma once
// A device whose steps stand still when a test wants them to, as if its driver hung.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "compute/device.h"

namespace stemma::test {

// The doors of any number of blocking devices. Thread-safe; outlives them.
class StepGate {
 public:
  void close() { set(true); }
  void open() { set(false); }

  // Until a step stands before the closed gate.
  void wait_for_a_step() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_; });
  }

  // A step comes by.
  void pass() {
    std::unique_lock lock(mutex_);
    waiting_ = closed_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    waiting_ = false;
  }

 private:
  void set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool waiting_ = false;
};

class BlockingDevice final : public Device {
 public:
  BlockingDevice(std::unique_ptr<Device> inner, StepGate& gate) : inner_(std::move(inner)), gate_(gate) {}

  std::string description() const override { return inner_->description(); }
  std::string kernel_identity() const override { return inner_->kernel_identity(); }
  std::unique_ptr<WeightStore> make_weight_store() override { return inner_->make_weight_store(); }
  std::size_t release_granularity() const override { return inner_->release_granularity(); }
  Result<std::unique_ptr<PageBuffer>> make_pages(const KvLayout& layout, std::size_t page_count) override {
    return inner_->make_pages(layout, page_count);
  }
  Result<std::unique_ptr<StateBuffer>> make_states(const StateLayout& layout, std::size_t row_count) override {
    return inner_->make_states(layout, row_count);
  }
  void run(const Step& step, StepMemory memory, const std::function<Tensor(Ops&)>& model,
           std::span<float> logits) override {
    gate_.pass();
    inner_->run(step, memory, model, logits);
  }

 private:
  std::unique_ptr<Device> inner_;
  StepGate& gate_;
};

}  // namespace stemma::test
