#pragma once
// The CPU device: our own kernels over a thread pool; exact (design section 8).

#include <memory>

#include "compute/device.h"

namespace stemma {

struct CpuDeviceConfig {
  int threads;  // >= 1, the calling thread counts as one
};

std::unique_ptr<Device> make_cpu_device(const CpuDeviceConfig& config);

}  // namespace stemma
