#pragma once
// A model's weights for the CPU device: views of the caller's matrices, and vectors converted to f32.
//
// Threads: filled by one thread, then read by any.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compute/cpu/products.h"
#include "compute/device.h"

namespace stemma {

class CpuWeightStore final : public WeightStore {
 public:
  struct WeightMatrix {
    HostMatrix source;
    const Product* product;
  };

  Result<Matrix> add_matrix(const HostMatrix& source) override;
  Result<Vector> add_vector(const HostMatrix& source) override;

  const WeightMatrix& matrix(Matrix handle) const { return matrices_[handle.id]; }
  std::span<const float> vector(Vector handle) const { return vectors_[handle.id]; }

 private:
  // The product for a type, made when its first matrix comes; nullptr if there is none.
  const Product* product_for(DType type);

  std::map<DType, std::unique_ptr<Product>> products_;
  std::vector<WeightMatrix> matrices_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace stemma
