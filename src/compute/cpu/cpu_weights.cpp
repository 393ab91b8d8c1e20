#include "compute/cpu/cpu_weights.h"

#include <limits>
#include <string>

#include "compute/cpu/checked.h"
#include "compute/dtype.h"

namespace stemma {
namespace {

tl::unexpected<Error> unsupported(const HostMatrix& source) {
  return fail(ErrorCode::weight_type_unsupported, {{"file", "the model"},
                                                   {"tensor", std::string(source.name)},
                                                   {"type", std::string(type_info(source.type).name)}});
}

}  // namespace

const Product* CpuWeightStore::product_for(DType type) {
  auto [place, is_new] = products_.try_emplace(type);
  if (is_new && type_info(type).multipliable) place->second = make_ggml_product(type);
  return place->second.get();
}

Result<Matrix> CpuWeightStore::add_matrix(const HostMatrix& source) {
  STEMMA_ASSERT(source.cols > 0 && source.cols <= std::numeric_limits<int>::max() && source.rows > 0);
  STEMMA_ASSERT(source.cols % type_info(source.type).block == 0);
  STEMMA_ASSERT(source.bytes >= row_bytes(source.type, source.cols) * static_cast<std::size_t>(source.rows));
  const Product* product = product_for(source.type);
  if (product == nullptr) return unsupported(source);
  matrices_.push_back({source, product});
  return Matrix{static_cast<std::uint32_t>(matrices_.size() - 1), source.cols, source.rows};
}

Result<Vector> CpuWeightStore::add_vector(const HostMatrix& source) {
  const std::int64_t size = source.cols * source.rows;
  STEMMA_ASSERT(source.cols % type_info(source.type).block == 0);
  STEMMA_ASSERT(source.bytes >= row_bytes(source.type, source.cols) * static_cast<std::size_t>(source.rows));
  std::vector<float> values(static_cast<std::size_t>(size));
  if (!unpack_elements(source.type, source.data, size, values.data())) return unsupported(source);
  vectors_.push_back(std::move(values));
  return Vector{static_cast<std::uint32_t>(vectors_.size() - 1), size};
}

}  // namespace stemma
