#pragma once
// Moves a file's tensors to a device, each checked for shape and type on the way, and counts what it moved.
//
// Shapes are in ggml's order, innermost first: a matrix is {inputs, outputs}. Dimensions of size 1 are disregarded,
// since exporters differ in writing them. Errors: `model_missing_tensor`, `model_bad_tensor`,
// `weight_type_unsupported`. One thread. Cost: what the device takes to add the tensor.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "compute/device.h"
#include "compute/ops.h"
#include "core/result.h"
#include "models/gguf_file.h"
#include "models/model.h"

namespace stemma {

class WeightLoader {
 public:
  // `file` and `store` must outlive the loader. `progress` may be empty.
  WeightLoader(const GgufFile& file, WeightStore& store, const LoadProgress& progress);

  Result<Matrix> matrix(const std::string& name, std::int64_t inputs, std::int64_t outputs);
  Result<std::optional<Matrix>> find_matrix(const std::string& name, std::int64_t inputs, std::int64_t outputs);

  // For embed(): rows are looked up, not multiplied. A tensor may be asked for as a matrix too.
  Result<Matrix> table(const std::string& name, std::int64_t inputs, std::int64_t outputs);

  // F32, F16 or BF16 in the file.
  Result<Vector> vector(const std::string& name, std::initializer_list<std::int64_t> shape);
  Result<std::optional<Vector>> find_vector(const std::string& name, std::initializer_list<std::int64_t> shape);

  // A matrix called `stem`.weight with an optional bias `stem`.bias.
  Result<Ops::LinearTerm> linear(const std::string& stem, std::int64_t inputs, std::int64_t outputs);

  // Numbers that were computed and are not in the file.
  Result<Vector> computed_vector(std::string_view name, std::span<const float> values);

  // Fails with `model_unexpected_tensor` if the file has a tensor that belongs to the text model and was not asked
  // for: a model with a part that is left out answers wrongly. Disregards vision, audio and multi-token-prediction
  // parts and blocks from `layers` on.
  Status check_nothing_left(std::int64_t layers) const;

  std::int64_t parameters() const { return parameters_; }
  std::size_t bytes() const { return bytes_; }
  std::string types() const;  // "Q8_0 (187), F32 (96)", most frequent first

 private:
  // Where the matrix `name` lies in the file, of a type that can be multiplied.
  Result<std::optional<HostMatrix>> find_source(const std::string& name, std::int64_t inputs,
                                                std::int64_t outputs) const;
  Status check_shape(const GgufTensor& tensor, std::span<const std::int64_t> shape) const;
  tl::unexpected<Error> missing(const std::string& name) const;
  void count(const GgufTensor& tensor);

  const GgufFile& file_;
  WeightStore& store_;
  const LoadProgress& progress_;
  std::size_t total_bytes_ = 0;  // of all tensors of the file, for progress
  std::size_t bytes_ = 0;
  std::int64_t parameters_ = 0;
  std::map<DType, int> type_counts_;
  std::set<std::string_view> used_;  // views of the file's names
};

}  // namespace stemma
