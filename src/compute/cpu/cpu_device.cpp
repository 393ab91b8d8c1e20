#include "compute/cpu/cpu_device.h"

#include <string>

#include "compute/cpu/checked.h"
#include "compute/cpu/cpu_buffers.h"
#include "compute/cpu/cpu_ops.h"
#include "compute/cpu/cpu_weights.h"
#include "compute/cpu/kernels/amx.h"
#include "compute/cpu/kernels/rows.h"
#include "compute/cpu/products.h"
#include "compute/cpu/thread_pool.h"

namespace stemma {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceConfig& config) : pool_(config.threads), ops_(pool_) { prepare_ggml(); }

  std::string description() const override {
    const int threads = pool_.threads();
    return "cpu: " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
           kernels::target_name() + (kernels::amx_available() ? " and AMX kernels" : " kernels");
  }

  std::string kernel_identity() const override {
    return std::string("cpu/") + kernels::target_name() + "/" + ggml_identity();
  }

  std::unique_ptr<WeightStore> make_weight_store() override {
    return std::make_unique<CpuWeightStore>(pool_);
  }

  std::size_t release_granularity() const override { return machine_page_bytes(); }

  Result<std::unique_ptr<PageBuffer>> make_pages(const KvLayout& layout, std::size_t page_count) override {
    return CpuPageBuffer::create(layout, page_count);
  }

  Result<std::unique_ptr<StateBuffer>> make_states(const StateLayout& layout, std::size_t row_count) override {
    return CpuStateBuffer::create(layout, row_count);
  }

  void run(const Step& step, StepMemory memory, const std::function<Tensor(Ops&)>& model,
           std::span<float> logits) override {
    const ThreadPool::Busy busy(pool_);
    ops_.begin(step, memory);
    const Tensor result = model(ops_);
    STEMMA_ASSERT(static_cast<std::size_t>(result.rows) == step.output_count());
    ops_.read(result, logits);
    ops_.end();
  }

 private:
  ThreadPool pool_;
  CpuOps ops_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuDeviceConfig& config) {
  return std::make_unique<CpuDevice>(config);
}

}  // namespace stemma
