// Products of packed weights beside ggml's on the same bytes, for every packed type, on every instruction set this machine
// has. Both quantize inputs alike, so that they differ in the rounding of f32 sums alone.

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "compute/cpu/kernels/amx.h"
#include "compute/cpu/kernels/panels.h"
#include "compute/cpu/kernels/rows.h"
#include "compute/cpu/memory.h"
#include "compute/cpu/products.h"
#include "compute/dtype.h"
#include "ggml.h"
#include "hwy/targets.h"

namespace stemma {
namespace {

constexpr DType kTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0,
                            DType::q5_1, DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};

void choose(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Highway's targets, and its best one with AMX where this machine has it.
struct InstructionSet {
  std::int64_t target;
  bool amx;
};

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) sets.push_back({target, false});
  if (kernels::amx_available()) sets.push_back({hwy::SupportedAndGeneratedTargets().front(), true});
  return sets;
}

class Panels : public testing::TestWithParam<std::tuple<InstructionSet, DType>> {
 protected:
  Panels() {
    choose(set().target);
    prepare_ggml();
  }
  ~Panels() override { choose(0); }

  void SetUp() override {
    if (!kernels::panel_format(type(), set().amx)) GTEST_SKIP() << "no vectors: ggml's products serve";
  }

  InstructionSet set() const { return std::get<0>(GetParam()); }
  DType type() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Product> product() const { return make_packed_product(type(), set().amx); }

  std::vector<float> normal(std::size_t n) {
    std::normal_distribution<float> distribution(0.0f, 1.0f);
    std::vector<float> values(n);
    for (float& value : values) value = distribution(random_);
    return values;
  }

  std::mt19937 random_{7};
};

// A matrix of a type, in the file's form.
struct Source {
  HostMatrix matrix;
  std::vector<std::byte> bytes;

  Source(DType type, std::int64_t rows, std::int64_t cols, const std::vector<float>& values)
      : bytes(row_bytes(type, cols) * static_cast<std::size_t>(rows)) {
    ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), bytes.data(), 0, rows, cols, nullptr);
    matrix = {"test", type, cols, rows, bytes.data(), bytes.size()};
  }
};

// The products of all rows with all inputs, [inputs][rows], with the rows multiplied in runs of `rows_at_once` units.
std::vector<float> multiply(const Product& product, const HostMatrix& source, const std::vector<float>& x,
                            std::int64_t rows_at_once = 1000) {
  const auto cols = static_cast<std::size_t>(source.cols), rows = static_cast<std::size_t>(source.rows);
  const std::size_t count = x.size() / cols;
  const std::size_t stride = product.prepared_bytes(source.cols);
  Mapping packed = Mapping::create(1, product.packed_bytes(source.cols, source.rows), "weights").value();
  const std::size_t group = product.input_group();
  Mapping inputs = Mapping::create((count + group - 1) / group, stride, "inputs").value();
  product.pack(source, 0, source.rows, packed.data());
  for (std::size_t i = 0; i < count; i += group) {
    product.prepare(x.data() + i * cols, cols, std::min(group, count - i), source.cols, inputs.data() + i / group * stride);
  }
  std::vector<float> out(count * rows, NAN);
  const std::int64_t step = rows_at_once * product.row_unit();
  for (std::int64_t first = 0; first < source.rows; first += step) {
    product.multiply({source, packed.data()}, first, std::min(step, source.rows - first), {inputs.data(), stride, count},
                     {out.data(), rows});
  }
  return out;
}

std::vector<float> unpacked(const HostMatrix& source) {
  std::vector<float> values(static_cast<std::size_t>(source.rows * source.cols));
  unpack_elements(source.type, source.data, source.rows * source.cols, values.data());
  return values;
}

// Both products sum terms w * x in f32, each in its own order: they differ by no more than some roundings of the sum of
// magnitudes.
void expect_near_ggml(const Product& product, const HostMatrix& source, const std::vector<float>& x) {
  constexpr double kUnit = 1.0 / (1 << 23);
  const std::vector<float> w = unpacked(source);
  const std::vector<float> ours = multiply(product, source, x);
  const std::vector<float> expected = multiply(*make_ggml_product(source.type), source, x);
  const auto cols = static_cast<std::size_t>(source.cols), rows = static_cast<std::size_t>(source.rows);
  for (std::size_t i = 0; i < x.size() / cols; ++i) {
    for (std::size_t r = 0; r < rows; ++r) {
      double magnitude = 1e-30;
      for (std::size_t c = 0; c < cols; ++c) magnitude += std::abs(static_cast<double>(w[r * cols + c]) * x[i * cols + c]);
      ASSERT_NEAR(ours[i * rows + r], expected[i * rows + r], 16 * kUnit * magnitude) << "input " << i << ", row " << r;
    }
  }
}

TEST_P(Panels, GiveWhatGgmlGives) {
  for (const std::int64_t cols : {256, 1024, 3584}) {
    for (const std::int64_t rows : {1, 15, 16, 40}) {
      const Source source(type(), rows, cols, normal(static_cast<std::size_t>(rows * cols)));
      expect_near_ggml(*product(), source.matrix, normal(static_cast<std::size_t>(22 * cols)));
    }
  }
}

// Where the quants lie in a block of the file.
struct QuantBytes {
  std::size_t first, count;
};
QuantBytes quants_of(DType type) {
  switch (type) {
    case DType::q4_0: return {2, 16};
    case DType::q4_1: return {4, 16};
    case DType::q5_0: return {2, 20};
    case DType::q5_1: return {4, 20};
    case DType::q8_0: return {2, 32};
    case DType::q4_k: return {16, 128};
    case DType::q5_k: return {16, 160};
    case DType::q6_k: return {0, 192};
    default: return {0, 0};
  }
}

TEST_P(Panels, TakeTheGreatestQuantsWithoutOverflow) {
  constexpr std::int64_t kRows = 20, kCols = 512;
  Source source(type(), kRows, kCols, std::vector<float>(kRows * kCols, 1.0f));
  const QuantBytes quants = quants_of(type());
  for (const int bits : {0xff, 0x00, 0x80, 0x7f}) {
    for (std::size_t b = 0; b < source.bytes.size(); b += type_info(type()).block_bytes) {
      if (quants.count != 0) std::memset(&source.bytes[b + quants.first], bits, quants.count);
    }
    for (const float sign : {1.0f, -1.0f}) {
      expect_near_ggml(*product(), source.matrix, std::vector<float>(16 * kCols, sign));
    }
  }
}

TEST_P(Panels, GiveAnInputTheSameBitsBesideOthersAsAlone) {
  constexpr std::int64_t kRows = 70, kCols = 768;
  constexpr std::size_t kInputs = 45;
  const Source source(type(), kRows, kCols, normal(kRows * kCols));
  const std::vector<float> x = normal(kInputs * kCols);
  const std::unique_ptr<Product> product = this->product();
  const std::vector<float> together = multiply(*product, source.matrix, x);
  for (std::size_t i = 0; i < kInputs; ++i) {
    const std::vector<float> one(x.begin() + static_cast<std::ptrdiff_t>(i * kCols),
                                 x.begin() + static_cast<std::ptrdiff_t>((i + 1) * kCols));
    const std::vector<float> alone = multiply(*product, source.matrix, one);
    ASSERT_EQ(std::memcmp(alone.data(), &together[i * kRows], kRows * sizeof(float)), 0) << i;
  }
  for (std::size_t count = 1; count <= 17; ++count) {
    const std::vector<float> some(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count * kCols));
    const std::vector<float> y = multiply(*product, source.matrix, some, 1);
    ASSERT_EQ(std::memcmp(y.data(), together.data(), count * kRows * sizeof(float)), 0) << count;
  }
}

TEST_P(Panels, TakeZerosAndTinyInputs) {
  const Source source(type(), 16, 256, normal(16 * 256));
  const std::unique_ptr<Product> product = this->product();
  for (const float value : multiply(*product, source.matrix, std::vector<float>(256, 0.0f))) EXPECT_EQ(value, 0.0f);
  for (const float value : multiply(*product, source.matrix, std::vector<float>(256, 1e-30f))) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Panels,
                         testing::Combine(testing::ValuesIn(instruction_sets()), testing::ValuesIn(kTypes)),
                         [](const auto& test) {
                           const InstructionSet set = std::get<0>(test.param);
                           return std::string(hwy::TargetName(set.target)) + (set.amx ? "_AMX_" : "_") +
                                  std::string(type_info(std::get<1>(test.param)).name);
                         });

}  // namespace
}  // namespace stemma
