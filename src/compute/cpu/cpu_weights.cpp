#include "compute/cpu/cpu_weights.h"

#include <algorithm>
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

// Addresses are reserved in blocks of at least so much; memory is taken as it is written.
constexpr std::size_t kBlockBytes = std::size_t{64} << 20;

// Bytes of the file that one item packs.
constexpr std::size_t kPackBytes = std::size_t{256} << 10;

void check_bounds(const HostMatrix& source) {
  STEMMA_ASSERT(source.cols > 0 && source.cols <= std::numeric_limits<int>::max() && source.rows > 0);
  STEMMA_ASSERT(source.cols % type_info(source.type).block == 0);
  STEMMA_ASSERT(source.bytes >= row_bytes(source.type, source.cols) * static_cast<std::size_t>(source.rows));
  static_cast<void>(source);
}

}  // namespace

const Product* CpuWeightStore::product_for(DType type) {
  auto [place, is_new] = products_.try_emplace(type);
  if (is_new && type_info(type).multipliable) place->second = make_product(type);
  return place->second.get();
}

Result<std::byte*> CpuWeightStore::allocate(std::size_t bytes) {
  if (blocks_.empty() || blocks_.back().size() - used_ < bytes) {
    STEMMA_TRY(Mapping block, Mapping::create(1, std::max(bytes, kBlockBytes), "packed weights"));
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  std::byte* place = blocks_.back().data() + used_;
  used_ += round_up(bytes, kCacheLine);
  used_ = std::min(used_, blocks_.back().size());
  return place;
}

Result<Matrix> CpuWeightStore::add_matrix(const HostMatrix& source) {
  check_bounds(source);
  const Product* product = product_for(source.type);
  if (product == nullptr) return unsupported(source);
  WeightMatrix matrix{{source, nullptr}, product};
  if (const std::size_t bytes = product->packed_bytes(source.cols, source.rows)) {
    STEMMA_TRY(std::byte* packed, allocate(bytes));
    const std::int64_t unit = product->row_unit();
    const auto rows_in = static_cast<std::int64_t>(kPackBytes / row_bytes(source.type, source.cols));
    const std::int64_t rows = std::max<std::int64_t>(1, rows_in / unit) * unit;
    const ThreadPool::Busy busy(pool_);
    pool_.parallel_for(static_cast<std::size_t>((source.rows + rows - 1) / rows), [&](std::size_t item, int) {
      const std::int64_t first = static_cast<std::int64_t>(item) * rows;
      product->pack(source, first, std::min(rows, source.rows - first), packed);
    });
    matrix.weights.packed = packed;
  }
  matrices_.push_back(matrix);
  return Matrix{static_cast<std::uint32_t>(matrices_.size() - 1), source.cols, source.rows};
}

Result<Matrix> CpuWeightStore::add_table(const HostMatrix& source) {
  check_bounds(source);
  if (!type_info(source.type).multipliable) return unsupported(source);
  matrices_.push_back({{source, nullptr}, nullptr});
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
