#include "models/weight_loader.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "compute/dtype.h"

namespace stemma {
namespace {

std::vector<std::int64_t> without_ones(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> rest;
  for (const std::int64_t size : shape) {
    if (size != 1) rest.push_back(size);
  }
  return rest;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "shape [";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// The N of "blk.N.…"; nullopt for other names.
std::optional<std::int64_t> block_number(std::string_view name) {
  constexpr std::string_view prefix = "blk.";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return number;
}

// Vision and audio encoders, their projectors, and multi-token-prediction heads.
bool belongs_elsewhere(std::string_view name) {
  constexpr std::string_view prefixes[] = {"v.", "mm.", "a.", "mtp."};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

WeightLoader::WeightLoader(const GgufFile& file, WeightStore& store, const LoadProgress& progress)
    : file_(file), store_(store), progress_(progress) {
  for (const GgufTensor& tensor : file.tensors()) total_bytes_ += tensor.bytes;
}

tl::unexpected<Error> WeightLoader::missing(const std::string& name) const {
  return fail(ErrorCode::model_missing_tensor,
              {{"file", file_.path()}, {"tensor", name}, {"architecture", file_.architecture()}});
}

Status WeightLoader::check_shape(const GgufTensor& tensor, std::span<const std::int64_t> shape) const {
  if (without_ones(tensor.shape) == without_ones(shape)) return {};
  return fail(ErrorCode::model_bad_tensor, {{"file", file_.path()},
                                            {"tensor", tensor.name},
                                            {"found", shape_text(tensor.shape)},
                                            {"architecture", file_.architecture()},
                                            {"expected", shape_text(shape)}});
}

void WeightLoader::count(const GgufTensor& tensor) {
  if (!used_.insert(tensor.name).second) return;
  bytes_ += tensor.bytes;
  const HostMatrix matrix = tensor.matrix();
  parameters_ += matrix.cols * matrix.rows;
  ++type_counts_[tensor.type];
  if (progress_) progress_(bytes_, total_bytes_);
}

Result<std::optional<HostMatrix>> WeightLoader::find_source(const std::string& name, std::int64_t inputs,
                                                            std::int64_t outputs) const {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) return std::nullopt;
  const std::int64_t shape[] = {inputs, outputs};
  STEMMA_CHECK(check_shape(*tensor, shape));
  const TypeInfo& type = type_info(tensor->type);
  if (!type.multipliable || inputs % type.block != 0) {
    return fail(ErrorCode::weight_type_unsupported,
                {{"file", file_.path()}, {"tensor", name}, {"type", std::string(type.name)}});
  }
  HostMatrix source = tensor->matrix();
  source.cols = inputs;
  source.rows = outputs;
  return source;
}

Result<std::optional<Matrix>> WeightLoader::find_matrix(const std::string& name, std::int64_t inputs,
                                                        std::int64_t outputs) {
  STEMMA_TRY(const auto source, find_source(name, inputs, outputs));
  if (!source) return std::nullopt;
  STEMMA_TRY(const Matrix matrix, store_.add_matrix(*source));
  count(*file_.find_tensor(name));
  return matrix;
}

Result<Matrix> WeightLoader::table(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  STEMMA_TRY(const auto source, find_source(name, inputs, outputs));
  if (!source) return missing(name);
  STEMMA_TRY(const Matrix table, store_.add_table(*source));
  count(*file_.find_tensor(name));
  return table;
}

Result<Matrix> WeightLoader::matrix(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  STEMMA_TRY(const auto found, find_matrix(name, inputs, outputs));
  if (!found) return missing(name);
  return *found;
}

Result<std::optional<Vector>> WeightLoader::find_vector(const std::string& name,
                                                        std::initializer_list<std::int64_t> shape) {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) return std::nullopt;
  STEMMA_CHECK(check_shape(*tensor, shape));
  if (tensor->type != DType::f32 && tensor->type != DType::f16 && tensor->type != DType::bf16) {
    return fail(ErrorCode::model_bad_tensor, {{"file", file_.path()},
                                              {"tensor", name},
                                              {"found", "type " + std::string(type_info(tensor->type).name)},
                                              {"architecture", file_.architecture()},
                                              {"expected", "F32, F16 or BF16"}});
  }
  STEMMA_TRY(const Vector vector, store_.add_vector(tensor->matrix()));
  count(*tensor);
  return vector;
}

Result<Vector> WeightLoader::vector(const std::string& name, std::initializer_list<std::int64_t> shape) {
  STEMMA_TRY(const auto found, find_vector(name, shape));
  if (!found) return missing(name);
  return *found;
}

Result<Ops::LinearTerm> WeightLoader::linear(const std::string& stem, std::int64_t inputs, std::int64_t outputs) {
  STEMMA_TRY(const Matrix weight, matrix(stem + ".weight", inputs, outputs));
  STEMMA_TRY(const auto bias, find_vector(stem + ".bias", {outputs}));
  return Ops::LinearTerm{weight, bias};
}

Result<Vector> WeightLoader::computed_vector(std::string_view name, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return store_.add_vector({name, DType::f32, std::ssize(values), 1, bytes.data(), bytes.size()});
}

Status WeightLoader::check_nothing_left(std::int64_t layers) const {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (used_.contains(tensor.name) || belongs_elsewhere(tensor.name)) continue;
    if (const auto block = block_number(tensor.name); block && *block >= layers) continue;
    return fail(ErrorCode::model_unexpected_tensor,
                {{"file", file_.path()}, {"tensor", tensor.name}, {"architecture", file_.architecture()}});
  }
  return {};
}

std::string WeightLoader::types() const {
  std::vector<std::pair<DType, int>> counts(type_counts_.begin(), type_counts_.end());
  std::ranges::stable_sort(counts, std::greater<>{}, &std::pair<DType, int>::second);
  std::string text;
  for (const auto& [type, number] : counts) {
    text += (text.empty() ? "" : ", ") + std::string(type_info(type).name) + " (" + std::to_string(number) + ")";
  }
  return text;
}

}  // namespace stemma
