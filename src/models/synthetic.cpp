#include "models/synthetic.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "compute/dtype.h"
#include "models/atomic_file.h"
#include "models/gguf_file.h"
#include "models/synthetic_plan.h"

namespace stemma {
namespace {

struct FreeGguf {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
struct FreeGgml {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
using GgufContext = std::unique_ptr<gguf_context, FreeGguf>;
using GgmlContext = std::unique_ptr<ggml_context, FreeGgml>;

tl::unexpected<Error> bad_option(std::string reason) {
  return fail(ErrorCode::make_model_bad_option, {{"reason", std::move(reason)}});
}

// What the matrices are written in: all in one type, or those that suffer most from few bits in a
// wider one.
struct MatrixTypes {
  DType most;
  DType sensitive;
};

// The types of the mix, or the element type, called `name` in lower case, if weights can be written
// in it.
Result<MatrixTypes> parse_type(const std::string& name) {
  if (name == "q4_k_m") return MatrixTypes{DType::q4_k, DType::q6_k};
  std::string known = "q4_k_m";
  for (const TypeInfo& type : all_types()) {
    if (!type.multipliable || ggml_quantize_requires_imatrix(static_cast<ggml_type>(type.type))) continue;
    std::string lower(type.name);
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    if (lower == name) return MatrixTypes{type.type, type.type};
    known += ", " + lower;
  }
  return bad_option("there is no type " + name + "; known are " + known);
}

// A stream of random values, the same for the same seed and tensor on every machine up to the math library's rounding
// of logarithms. splitmix64 (Steele et al., OOPSLA 2014) over a counter.
class RandomValues {
 public:
  RandomValues(std::uint64_t seed, std::string_view tensor) : state_(seed) {
    for (const char c : tensor) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    state_ = next();
  }

  // Variance 1, mean 0: the sum of four uniform values, which is near enough to normal for weights.
  float normal() {
    const std::uint64_t bits = next();
    const auto part = [&](int i) { return static_cast<float>((bits >> (16 * i)) & 0xffff); };
    constexpr float kSqrt3 = 1.7320508f;
    return ((part(0) + part(1) + part(2) + part(3)) / 65536.0f - 2.0f) * kSqrt3;
  }

  float log_uniform(float low, float high) {
    const float uniform = static_cast<float>(next() >> 40) * 0x1p-24f;
    return low * std::exp(uniform * std::log(high / low));
  }

  float draw(const Normal& d) { return d.mean + d.deviation * normal(); }
  float draw(const LogUniform& d) { return d.sign * log_uniform(d.low, d.high); }
  float draw(const InverseSoftplusLogUniform& d) { return std::log(std::expm1(log_uniform(d.low, d.high))); }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

// The vocabulary file's keys, only tokenizer.* of them.
Result<GgufContext> copy_tokenizer(const std::string& path) {
  GgufContext vocabulary(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (!vocabulary) {
    return fail(ErrorCode::gguf_bad_metadata,
                {{"file", path}, {"key", "tokenizer.*"}, {"reason", "ggml cannot read the file"}});
  }
  GgufContext out(gguf_init_empty());
  gguf_set_kv(out.get(), vocabulary.get());
  for (std::int64_t i = gguf_get_n_kv(out.get()) - 1; i >= 0; --i) {
    const std::string key = gguf_get_key(out.get(), i);
    if (!key.starts_with("tokenizer.")) gguf_remove_key(out.get(), key.c_str());
  }
  return out;
}

void set_key(gguf_context* out, const PlannedKey& planned) {
  const char* key = planned.key.c_str();
  struct {
    gguf_context* out;
    const char* key;
    void operator()(std::uint32_t value) const { gguf_set_val_u32(out, key, value); }
    void operator()(float value) const { gguf_set_val_f32(out, key, value); }
    void operator()(const std::vector<std::int32_t>& values) const {
      gguf_set_arr_data(out, key, GGUF_TYPE_INT32, values.data(), values.size());
    }
  } const set{out, key};
  std::visit(set, planned.value);
}

// Draws, converts and writes one tensor, some rows at a time, and pads it.
Status write_tensor(AtomicFile& file, const PlannedTensor& tensor, DType type, std::uint64_t seed,
                    std::size_t alignment) {
  const std::int64_t cols = tensor.shape[0];
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / cols);

  RandomValues random(seed, tensor.name);
  std::vector<float> values;
  std::vector<std::byte> bytes;
  std::size_t written = 0;
  for (std::int64_t done = 0; done < rows; done += rows_at_once) {
    const std::int64_t now = std::min(rows_at_once, rows - done);
    values.resize(static_cast<std::size_t>(now * cols));
    std::visit([&](const auto& d) { std::ranges::generate(values, [&] { return random.draw(d); }); }, tensor.values);
    bytes.resize(static_cast<std::size_t>(now) * row_bytes(type, cols));
    ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), bytes.data(), 0, now, cols, nullptr);
    STEMMA_CHECK(file.write(bytes));
    written += bytes.size();
  }
  const std::vector<std::byte> padding((alignment - written % alignment) % alignment);
  return file.write(padding);
}

}  // namespace

Status write_synthetic_model(const SyntheticModelSpec& spec) {
  STEMMA_TRY(const MatrixTypes types, parse_type(spec.type));
  STEMMA_TRY(const auto vocabulary, GgufFile::open(spec.vocabulary_path));
  STEMMA_TRY(const auto tokens, vocabulary->find_strings("tokenizer.ggml.tokens"));
  if (!tokens || tokens->empty()) return bad_option(spec.vocabulary_path + " has no tokens");
  STEMMA_TRY(const SyntheticPlan plan, plan_synthetic_model(spec.architecture, spec.preset, std::ssize(*tokens)));

  STEMMA_TRY(const GgufContext out, copy_tokenizer(spec.vocabulary_path));
  const std::string name = spec.architecture + " " + spec.preset + " " + spec.type + ", random weights, seed " +
                           std::to_string(spec.seed);
  gguf_set_val_str(out.get(), "general.architecture", spec.architecture.c_str());
  gguf_set_val_str(out.get(), "general.name", name.c_str());
  gguf_set_val_u32(out.get(), "general.quantization_version", GGML_QNT_VERSION);
  for (const PlannedKey& key : plan.keys) set_key(out.get(), key);

  const GgmlContext descriptions(ggml_init({.mem_size = (plan.tensors.size() + 1) * ggml_tensor_overhead(),
                                            .mem_buffer = nullptr,
                                            .no_alloc = true}));
  const auto type_of = [&](const PlannedTensor& tensor) {
    if (!tensor.is_matrix) return DType::f32;
    return tensor.is_sensitive ? types.sensitive : types.most;
  };
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.shape[0] % type_info(type_of(tensor)).block != 0) {
      return bad_option("rows of " + std::to_string(tensor.shape[0]) + " elements are not whole blocks of " +
                        spec.type);
    }
    ggml_tensor* description =
        ggml_new_tensor(descriptions.get(), static_cast<ggml_type>(type_of(tensor)),
                        static_cast<int>(tensor.shape.size()), tensor.shape.data());
    ggml_set_name(description, tensor.name.c_str());
    gguf_add_tensor(out.get(), description);
  }

  STEMMA_TRY(AtomicFile file, AtomicFile::create(spec.output_path));
  std::vector<std::byte> header(gguf_get_meta_size(out.get()));
  gguf_get_meta_data(out.get(), header.data());
  STEMMA_CHECK(file.write(header));
  for (const PlannedTensor& tensor : plan.tensors) {
    STEMMA_CHECK(write_tensor(file, tensor, type_of(tensor), spec.seed, gguf_get_alignment(out.get())));
  }
  return file.commit();
}

}  // namespace stemma
