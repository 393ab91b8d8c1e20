// Single operations of the CPU device, run in a step, against plain references.

#include "compute/ops.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "compute/cpu/cpu_buffers.h"
#include "compute/cpu/cpu_device.h"
#include "compute/dtype.h"
#include "ggml.h"

namespace stemma {
namespace {

class OpsTest : public testing::Test {
 protected:
  OpsTest() {
    for (int i = 0; i < 4; ++i) page_ids_.push_back(PageId{static_cast<std::uint32_t>(3 - i)});
  }

  Matrix matrix(DType type, std::int64_t rows, std::int64_t cols, const std::vector<float>& values) {
    std::vector<std::byte>& bytes =
        bytes_.emplace_back(row_bytes(type, cols) * static_cast<std::size_t>(rows) + 64);
    const std::string_view name = type_info(type).name;
    if (name.starts_with("IQ1") || name.starts_with("IQ2") || name.starts_with("IQ3")) {
      // Quantizing to these takes minutes. Any bytes are valid; small ones are finite positive scales.
      std::uniform_int_distribution<int> byte(0, 0x3b);
      for (std::byte& b : bytes) b = static_cast<std::byte>(byte(random_));
    } else {
      ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), bytes.data(), 0, rows, cols, nullptr);
    }
    return store_->add_matrix({"test", type, cols, rows, bytes.data(), bytes.size()}).value();
  }

  Vector vector(const std::vector<float>& values) {
    return store_
        ->add_vector({"test", DType::f32, static_cast<std::int64_t>(values.size()), 1,
                      reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)})
        .value();
  }

  std::vector<float> normal(std::size_t n) {
    std::normal_distribution<float> distribution;
    std::vector<float> values(n);
    for (float& value : values) value = distribution(random_);
    return values;
  }

  // A segment of `count` tokens 0, 1, 2, ... from depth `start`, all of whose rows are outputs.
  void add_segment(Depth start, Depth count) {
    std::vector<Token>& tokens = tokens_.emplace_back(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    std::vector<Depth>& outputs = outputs_.emplace_back(static_cast<std::size_t>(count));
    std::iota(outputs.begin(), outputs.end(), start);
    step_.segments.push_back({.tokens = tokens,
                              .start = start,
                              .pages = page_ids_,
                              .kv_write_from = start,
                              .row = RowId{0},
                              .marks = {},
                              .outputs = outputs});
  }

  std::vector<float> run(std::int64_t cols, const std::function<Tensor(Ops&)>& body) {
    std::vector<float> result(step_.output_count() * static_cast<std::size_t>(cols));
    device_->run(step_, {*store_, *pages_, *states_}, body, result);
    return result;
  }

  std::mt19937 random_{9};
  std::unique_ptr<Device> device_ = make_cpu_device({.threads = 2});
  std::unique_ptr<WeightStore> store_ = device_->make_weight_store();
  KvLayout kv_{.layers = {{8, 8}}, .k_type = DType::f32, .v_type = DType::f32, .page_size = 4};
  std::unique_ptr<PageBuffer> pages_ = device_->make_pages(kv_, 4).value();
  std::unique_ptr<StateBuffer> states_ = device_->make_states({}, 1).value();
  std::vector<PageId> page_ids_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::vector<Token>> tokens_;
  std::vector<std::vector<Depth>> outputs_;
  Step step_;
};

// Every type that the table calls multipliable gives the product of the values it stores. Inputs are rounded to 8
// bits (a unit in 127 of a block's greatest value) or more, and errors of many inputs average out.
TEST_F(OpsTest, LinearOfEveryType) {
  const std::int64_t cols = 256, rows = 6;
  add_segment(0, 5);
  for (const TypeInfo& info : all_types()) {
    if (!info.multipliable) continue;
    const std::vector<float> x = normal(static_cast<std::size_t>(5 * cols));
    const std::vector<float> w = normal(static_cast<std::size_t>(rows * cols));
    const std::vector<float> bias = normal(static_cast<std::size_t>(rows));
    const Matrix table = matrix(DType::f32, 5, cols, x);
    const Matrix weight = matrix(info.type, rows, cols, w);
    const Vector shift = vector(bias);
    const std::vector<float> y = run(rows, [&](Ops& ops) { return ops.linear(ops.embed(table), {weight, shift}); });

    std::vector<float> stored(w.size());
    const std::byte* bytes = bytes_.back().data();
    if (info.type == DType::f32) {
      stored = w;
    } else {
      ggml_get_type_traits(static_cast<ggml_type>(info.type))->to_float(bytes, stored.data(), rows * cols);
    }
    double error = 0, size = 0;
    for (std::int64_t t = 0; t < 5; ++t) {
      for (std::int64_t r = 0; r < rows; ++r) {
        double expected = bias[static_cast<std::size_t>(r)];
        for (std::int64_t i = 0; i < cols; ++i) {
          expected += static_cast<double>(stored[static_cast<std::size_t>(r * cols + i)]) *
                      x[static_cast<std::size_t>(t * cols + i)];
        }
        const double difference = y[static_cast<std::size_t>(t * rows + r)] - expected;
        error += difference * difference;
        size += expected * expected;
      }
    }
    EXPECT_LT(std::sqrt(error / size), info.type == DType::f32 ? 1e-6 : 2e-2) << info.name;
  }
}

// Terms of one call may have different types; each gets the bits that it gets alone.
TEST_F(OpsTest, LinearTermsAreIndependent) {
  const std::int64_t cols = 256;
  add_segment(0, 9);
  const Matrix table = matrix(DType::f32, 9, cols, normal(9 * 256));
  std::vector<Matrix> weights;
  for (const DType type : {DType::q8_0, DType::f16, DType::q4_0, DType::q6_k}) {
    weights.push_back(matrix(type, 70, cols, normal(70 * 256)));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<float> alone = run(70, [&](Ops& ops) { return ops.linear(ops.embed(table), {weights[i]}); });
    const std::vector<float> together = run(70, [&](Ops& ops) {
      return ops.linear(ops.embed(table), {{weights[0]}, {weights[1]}, {weights[2]}, {weights[3]}})[i];
    });
    EXPECT_EQ(alone, together);
  }
}

TEST_F(OpsTest, WeightTypesWithoutProductAreRefused) {
  const std::vector<std::byte> bytes(4096);
  for (const DType type : {DType::i8, DType::i64, DType::f64, DType::q8_1, DType::q8_k}) {
    const HostMatrix source{"blk.0.odd.weight", type, 256, 1, bytes.data(), bytes.size()};
    const Result<Matrix> matrix = store_->add_matrix(source);
    ASSERT_FALSE(matrix.has_value());
    EXPECT_EQ(matrix.error().code(), ErrorCode::weight_type_unsupported);
    EXPECT_NE(matrix.error().message().find("blk.0.odd.weight"), std::string::npos);
    EXPECT_FALSE(store_->add_vector(source).has_value());
  }
}

TEST_F(OpsTest, SplitHeadsAndColumns) {
  add_segment(0, 3);
  std::vector<float> values(3 * 24);
  std::iota(values.begin(), values.end(), 0.0f);
  const Matrix table = matrix(DType::f32, 3, 24, values);
  const std::vector<float> y = run(6, [&](Ops& ops) {
    return ops.split_heads(ops.embed(table).columns(4, 15), 3, 1, 2);
  });
  std::vector<float> expected;
  for (int row = 0; row < 3; ++row) {
    for (const int col : {5, 6, 10, 11, 15, 16}) expected.push_back(static_cast<float>(row * 24 + col));
  }
  EXPECT_EQ(y, expected);
}

TEST_F(OpsTest, SelectOutputsFollowsTheSegments) {
  add_segment(0, 3);
  add_segment(7, 4);
  outputs_[0] = {1};
  outputs_[1] = {7, 10};
  step_.segments[0].outputs = outputs_[0];
  step_.segments[1].outputs = outputs_[1];
  const Matrix table = matrix(DType::f32, 4, 1, {0, 10, 20, 30});
  EXPECT_EQ(run(1, [&](Ops& ops) { return ops.select_outputs(ops.embed(table)); }),
            (std::vector<float>{10, 0, 30}));
}

// A prefill chunk in the middle of a prompt wants no logits.
TEST_F(OpsTest, StepsWithoutOutputs) {
  add_segment(0, 3);
  step_.segments[0].outputs = {};
  const Matrix table = matrix(DType::f32, 4, 1, {0, 10, 20, 30});
  const Vector norm = vector({1});
  EXPECT_EQ(run(4,
                [&](Ops& ops) {
                  return ops.linear(ops.rms_norm(ops.select_outputs(ops.embed(table)), norm, 1e-6f), {table});
                }),
            std::vector<float>());
}

// Angles follow the depth of the row, the frequency of the pair, its divisor and the scale.
TEST_F(OpsTest, RopeAngles) {
  const std::vector<float> factors = {1.0f, 4.0f};
  const Vector divisors = vector(factors);
  add_segment(1000, 2);
  const Matrix table = matrix(DType::f32, 2, 6, normal(12));
  const RopeParams params{.pairs = RopeParams::Pairs::halves,
                          .head_size = 6,
                          .n_rot = 4,
                          .freq_base = 500.0f,
                          .freq_scale = 0.5f,
                          .factors = divisors};
  const std::vector<float> x = run(6, [&](Ops& ops) { return ops.embed(table); });
  const std::vector<float> y = run(6, [&](Ops& ops) { return ops.rope(ops.embed(table), params); });
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle =
          (1000.0 + static_cast<double>(row)) * std::pow(500.0, -2.0 * static_cast<double>(i) / 4) / factors[i] * 0.5;
      const double x0 = x[row * 6 + i], x1 = x[row * 6 + i + 2];
      EXPECT_NEAR(y[row * 6 + i], x0 * std::cos(angle) - x1 * std::sin(angle), 1e-6);
      EXPECT_NEAR(y[row * 6 + i + 2], x0 * std::sin(angle) + x1 * std::cos(angle), 1e-6);
    }
    EXPECT_EQ(y[row * 6 + 4], x[row * 6 + 4]);
    EXPECT_EQ(y[row * 6 + 5], x[row * 6 + 5]);
  }
}

// K and V rows below kv_write_from are read from the pages and left as they are.
TEST_F(OpsTest, AttentionReadsSharedRowsAndWritesTheOthers) {
  auto& pages = static_cast<CpuPageBuffer&>(*pages_);
  const std::vector<float> shared_v(8, 7.0f), zeros(8, 0.0f);
  for (Depth depth = 0; depth < 6; ++depth) {
    pages.write(0, page_ids_[static_cast<std::size_t>(depth / 4)], depth % 4, zeros.data(), shared_v.data());
  }
  add_segment(3, 5);
  step_.segments[0].kv_write_from = 6;
  const Matrix ones = matrix(DType::f32, 5, 8, std::vector<float>(40, 1.0f));
  // q.k = 0 for shared rows (K is zero) and new ones (q is zero): every visible depth weighs the same.
  const Matrix nothing = matrix(DType::f32, 5, 8, std::vector<float>(40, 0.0f));
  const std::vector<float> y = run(8, [&](Ops& ops) {
    return ops.attention(ops.embed(nothing), ops.embed(ones), ops.embed(ones),
                         {.layer = 0, .n_head = 2, .n_head_kv = 2, .k_size = 4, .v_size = 4, .scale = 1.0f});
  });
  for (int row = 0; row < 5; ++row) {
    const int depth = 3 + row;
    const int fresh = std::max(0, depth - 5);
    const float expected = static_cast<float>(7 * (depth + 1 - fresh) + fresh) / static_cast<float>(depth + 1);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(y[static_cast<std::size_t>(row * 8 + i)], expected, 1e-5) << row;
  }
  const kernels::KvRows rows = pages.v_rows(0, 0, 8, page_ids_);
  for (std::size_t depth = 0; depth < 8; ++depth) {
    EXPECT_EQ(*reinterpret_cast<const float*>(rows.row(depth)), depth < 6 ? 7.0f : 1.0f) << depth;
  }
}

// Tensors of a scope are freed with it; those from before keep their values.
TEST_F(OpsTest, ScopesFreeTheirTensors) {
  add_segment(0, 2);
  const Matrix table = matrix(DType::f32, 2, 3, {1, 2, 3, 4, 5, 6});
  const std::vector<float> y = run(3, [&](Ops& ops) {
    const Tensor x = ops.embed(table);
    for (int i = 0; i < 3; ++i) {
      const Ops::Scope scope(ops);
      const Tensor again = ops.embed(table);
      {
        const Ops::Scope inner(ops);
        ops.add_to(again, ops.embed(table));
      }
      ops.add_to(x, again);
    }
    return x;
  });
  EXPECT_EQ(y, (std::vector<float>{7, 14, 21, 28, 35, 42}));
}

}  // namespace
}  // namespace stemma
