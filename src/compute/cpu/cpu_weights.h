#pragma once
// A model's weights for the CPU device: matrices for products (packed, where their product packs), tables to look rows up
// in (views of the caller's bytes), and vectors converted to f32.
//
// Threads: filled by one thread, with the pool's help, then read by any.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compute/cpu/memory.h"
#include "compute/cpu/products.h"
#include "compute/cpu/thread_pool.h"
#include "compute/device.h"

namespace stemma {

class CpuWeightStore final : public WeightStore {
 public:
  // The pool is used while matrices are added and must live until then.
  explicit CpuWeightStore(ThreadPool& pool) : pool_(pool) {}

  struct WeightMatrix {
    Product::Weights weights;
    const Product* product;  // nullptr: a table
  };

  Result<Matrix> add_matrix(const HostMatrix& source) override;
  Result<Matrix> add_table(const HostMatrix& source) override;
  Result<Vector> add_vector(const HostMatrix& source) override;

  const WeightMatrix& matrix(Matrix handle) const { return matrices_[handle.id]; }
  std::span<const float> vector(Vector handle) const { return vectors_[handle.id]; }

 private:
  // The product for a type, made when its first matrix comes; nullptr if there is none.
  const Product* product_for(DType type);

  // Room for a packed matrix, aligned to a cache line. Fails with `out_of_memory`.
  Result<std::byte*> allocate(std::size_t bytes);

  ThreadPool& pool_;
  std::map<DType, std::unique_ptr<Product>> products_;
  std::vector<WeightMatrix> matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<Mapping> blocks_;    // packed matrices, one after the other
  std::size_t used_ = 0;           // of the last block
};

}  // namespace stemma
