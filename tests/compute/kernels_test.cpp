// Every kernel against a plain reference in f64, on every instruction set this machine has. Tolerances are given in
// units of f32's rounding (kUnit) and follow from the number of rounded operations behind a result.

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compute/cpu/kernels/attention.h"
#include "compute/cpu/kernels/recurrent.h"
#include "compute/cpu/kernels/rows.h"
#include "ggml.h"
#include "hwy/targets.h"

namespace stemma::kernels {
namespace {

constexpr double kUnit = 1.0 / (1 << 23);

class Kernels : public testing::TestWithParam<std::int64_t> {
 protected:
  Kernels() { choose(GetParam()); }
  ~Kernels() override { choose(0); }

  // Limits dispatch to one target; 0 lifts the limit.
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }

  std::vector<float> normal(std::size_t n, float spread = 1.0f) {
    std::normal_distribution<float> distribution(0.0f, spread);
    std::vector<float> values(n);
    for (float& value : values) value = distribution(random_);
    return values;
  }

  std::mt19937 random_{5};
};

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST_P(Kernels, RunsOnTheTargetAsked) { EXPECT_STREQ(target_name(), hwy::TargetName(GetParam())); }

TEST_P(Kernels, Norms) {
  for (const std::size_t n : {1, 3, 16, 33, 80, 128, 1000}) {
    const std::vector<float> x = normal(n, 3.0f), weight = normal(n);
    std::vector<float> y(n);
    const double squares = dot(x.data(), x.data(), n);
    rms_norm(x.data(), weight.data(), 1e-5f, n, y.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i];
      EXPECT_NEAR(y[i], expected, 8 * kUnit * std::abs(expected)) << n;
    }
    l2_norm(x.data(), 1e-6f, n, y.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares + 1e-6);
      EXPECT_NEAR(y[i], expected, 8 * kUnit * std::abs(expected)) << n;
    }
  }
}

TEST_P(Kernels, Activations) {
  std::vector<float> x;
  for (float value = -120.0f; value <= 120.0f; value += 0.37f) x.push_back(value);
  const std::size_t n = x.size();
  const std::vector<float> other = normal(n), third = normal(n);
  std::vector<float> y(n);
  // The vector exp is good to 2 units; the smallest results may be flushed to zero.
  const auto expect = [&](const char* name, const std::function<double(std::size_t)>& reference) {
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = reference(i);
      ASSERT_NEAR(y[i], expected, 8 * kUnit * std::abs(expected) + 1e-35) << name << " of " << x[i];
    }
  };
  const auto sigmoid_of = [](double v) { return 1 / (1 + std::exp(-v)); };
  sigmoid(x.data(), n, y.data());
  expect("sigmoid", [&](std::size_t i) { return sigmoid_of(x[i]); });
  sigmoid_mul(x.data(), other.data(), n, y.data());
  expect("sigmoid_mul", [&](std::size_t i) { return sigmoid_of(x[i]) * other[i]; });
  silu_mul(x.data(), other.data(), n, y.data());
  expect("silu_mul", [&](std::size_t i) { return x[i] * sigmoid_of(x[i]) * other[i]; });
  add(x.data(), other.data(), n, y.data());
  expect("add", [&](std::size_t i) { return static_cast<double>(x[i] + other[i]); });
  softplus_gate(x.data(), other.data(), third.data(), n, y.data());
  // Rounding x + bias moves the result by its size in units.
  for (std::size_t i = 0; i < n; ++i) {
    const double v = x[i] + third[i];
    const double expected = other[i] * std::log1p(std::exp(v));
    const double slack = (8 + std::abs(v)) * kUnit * std::abs(expected) + 1e-35;
    ASSERT_NEAR(y[i], std::isfinite(expected) ? expected : other[i] * v, slack) << "softplus of " << v;
  }
}

TEST_P(Kernels, Rope) {
  for (const std::size_t pairs : {1, 5, 16, 24, 40}) {
    const std::vector<float> x = normal(2 * pairs), angles = normal(pairs, 100.0f);
    std::vector<float> cosines(pairs), sines(pairs), y(2 * pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      cosines[i] = std::cos(angles[i]);
      sines[i] = std::sin(angles[i]);
    }
    const auto expect = [&](std::size_t first, std::size_t second, std::size_t i) {
      const double c = cosines[i], s = sines[i];
      EXPECT_NEAR(y[first], x[first] * c - x[second] * s, 8 * kUnit);
      EXPECT_NEAR(y[second], x[first] * s + x[second] * c, 8 * kUnit);
    };
    rope_halves(x.data(), cosines.data(), sines.data(), pairs, y.data());
    for (std::size_t i = 0; i < pairs; ++i) expect(i, i + pairs, i);
    rope_neighbours(x.data(), cosines.data(), sines.data(), pairs, y.data());
    for (std::size_t i = 0; i < pairs; ++i) expect(2 * i, 2 * i + 1, i);
  }
}

TEST_P(Kernels, HalfPrecision) {
  std::vector<float> x = normal(1000, 10.0f);
  x[0] = 0.0f;
  x[1] = 65504.0f;
  x[2] = 1.0f + 1.0f / 2048;  // halfway between neighbours: to even
  x[3] = 1.0f + 3.0f / 2048;
  x[4] = 1e6f;                // infinity
  x[5] = -3e-7f;              // below the smallest normal half
  x[6] = 1e-9f;               // to zero
  std::vector<std::uint16_t> y(x.size());
  to_f16(x.data(), x.size(), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], ggml_fp32_to_fp16(x[i])) << x[i];
  }
}

TEST_P(Kernels, GatedDeltaNet) {
  for (const std::size_t d_k : {1, 5, 8, 16, 32, 33, 64, 80, 128}) {
    for (const std::size_t d_v : {std::size_t{1}, std::size_t{7}, d_k}) {
      const std::size_t tokens = 37;
      // Rows are padded so that strides differ from widths.
      const std::size_t k_stride = d_k + 3, v_stride = d_v + 1;
      std::vector<float> q = normal(tokens * k_stride), k = normal(tokens * k_stride);
      const std::vector<float> v = normal(tokens * v_stride);
      std::vector<float> g = normal(tokens * 2), beta = normal(tokens * 2);
      for (std::size_t t = 0; t < tokens; ++t) {
        l2_norm(&q[t * k_stride], 1e-6f, d_k, &q[t * k_stride]);
        l2_norm(&k[t * k_stride], 1e-6f, d_k, &k[t * k_stride]);
        g[2 * t] = -std::abs(g[2 * t]);
        beta[2 * t] = 1.0f / (1.0f + std::exp(beta[2 * t]));
      }
      const std::vector<float> start = normal(d_v * d_k);
      const auto run = [&](std::size_t first, std::size_t count, std::vector<float>& state, std::vector<float>& out) {
        gated_delta_net({.tokens = count,
                         .d_k = d_k,
                         .d_v = d_v,
                         .q = &q[first * k_stride],
                         .q_stride = k_stride,
                         .k = &k[first * k_stride],
                         .k_stride = k_stride,
                         .v = &v[first * v_stride],
                         .v_stride = v_stride,
                         .g = &g[first * 2],
                         .g_stride = 2,
                         .beta = &beta[first * 2],
                         .beta_stride = 2,
                         .state = state.data(),
                         .out = &out[first * v_stride],
                         .out_stride = v_stride});
      };
      std::vector<float> state = start, out(tokens * v_stride);
      run(0, tokens, state, out);

      std::vector<double> m(start.begin(), start.end());
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t j = 0; j < d_v; ++j) {
          double along_k = 0, along_q = 0;
          for (std::size_t i = 0; i < d_k; ++i) {
            m[i * d_v + j] *= std::exp(static_cast<double>(g[2 * t]));
            along_k += m[i * d_v + j] * k[t * k_stride + i];
          }
          const double d = (v[t * v_stride + j] - along_k) * beta[2 * t];
          for (std::size_t i = 0; i < d_k; ++i) {
            m[i * d_v + j] += d * k[t * k_stride + i];
            along_q += m[i * d_v + j] * q[t * k_stride + i];
          }
          // Errors of earlier tokens decay with the state, so they do not grow with their number.
          EXPECT_NEAR(out[t * v_stride + j], along_q / std::sqrt(static_cast<double>(d_k)), 64 * kUnit)
              << "d_k " << d_k << " token " << t;
        }
      }
      for (std::size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(state[i], m[i], 64 * kUnit) << "d_k " << d_k;

      std::vector<float> cut_state = start, cut_out(tokens * v_stride);
      std::size_t first = 0;
      for (const std::size_t end : {1, 2, 18, 37}) {
        run(first, end - first, cut_state, cut_out);
        first = end;
      }
      EXPECT_EQ(cut_state, state);
      EXPECT_EQ(cut_out, out);
    }
  }
}

TEST_P(Kernels, Convolution) {
  for (const std::size_t taps : {1, 2, 3, 4, 5, 33, 64}) {
    for (const std::size_t channels : {1, 15, 16, 50}) {
      const std::size_t tokens = 9, stride = channels + 2;
      const std::vector<float> kernel = normal(channels * taps), window = normal((taps - 1) * stride),
                               x = normal(tokens * stride);
      std::vector<float> y(tokens * stride);
      conv_silu({.tokens = tokens,
                 .channels = channels,
                 .taps = taps,
                 .kernel = kernel.data(),
                 .window = window.data(),
                 .window_stride = stride,
                 .x = x.data(),
                 .x_stride = stride,
                 .y = y.data(),
                 .y_stride = stride});
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (std::size_t i = 0; i < taps; ++i) {
            const std::size_t row = t + i;
            sum += kernel[c * taps + i] * static_cast<double>(row < taps - 1 ? window[row * stride + c]
                                                                             : x[(row - (taps - 1)) * stride + c]);
          }
          EXPECT_NEAR(y[t * stride + c], sum / (1 + std::exp(-sum)), static_cast<double>(16 + 2 * taps) * kUnit) << taps << " taps";
        }
      }
    }
  }
}

TEST_P(Kernels, Attention) {
  struct Shape {
    std::size_t heads, k_size, v_size, page_size;
    bool half;
  };
  for (const Shape& shape : {Shape{4, 64, 64, 16, true}, Shape{1, 80, 80, 7, false}, Shape{3, 33, 17, 1, true},
                             Shape{8, 256, 256, 64, true}, Shape{2, 4, 100, 300, false}}) {
    const std::size_t depths = 700;
    const std::size_t element = shape.half ? 2 : 4;
    const std::size_t page_count = (depths + shape.page_size - 1) / shape.page_size;
    // Pages lie in reverse order; a page holds its K rows and then its V rows.
    std::vector<PageId> pages(page_count);
    for (std::size_t i = 0; i < page_count; ++i) pages[i] = PageId{static_cast<std::uint32_t>(page_count - 1 - i)};
    const std::size_t k_row = shape.k_size * element, v_row = shape.v_size * element;
    const std::size_t v_offset = (shape.page_size * k_row + 3) / 4 * 4;
    const std::size_t page_bytes = v_offset + (shape.page_size * v_row + 3) / 4 * 4;
    std::vector<std::byte> memory(page_count * page_bytes);
    const KvRows k_rows{memory.data(), page_bytes, k_row, pages, shape.page_size, shape.half, shape.k_size};
    const KvRows v_rows{memory.data() + v_offset, page_bytes, v_row, pages, shape.page_size, shape.half,
                        shape.v_size};
    std::vector<float> k = normal(depths * shape.k_size), v = normal(depths * shape.v_size);
    const auto store = [&](const KvRows& rows, std::vector<float>& values) {
      for (std::size_t d = 0; d < depths; ++d) {
        auto* row = const_cast<std::byte*>(rows.row(d));
        float* source = &values[d * rows.size];
        if (shape.half) {
          to_f16(source, rows.size, reinterpret_cast<std::uint16_t*>(row));
          for (std::size_t i = 0; i < rows.size; ++i) source[i] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(source[i]));
        } else {
          std::copy_n(source, rows.size, reinterpret_cast<float*>(row));
        }
      }
    };
    store(k_rows, k);
    store(v_rows, v);
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.k_size));

    for (const std::size_t first_depth : {0, 250, 511, 690}) {
      const std::size_t tokens = 10, width = shape.heads * shape.k_size;
      const std::vector<float> q = normal(tokens * width, 2.0f);
      const AttentionTile tile{q.data(), width, tokens, shape.heads, first_depth, k_rows, v_rows, scale};
      std::vector<float> scratch(attention_scratch_floats(tile) + 16);
      const std::size_t stride = partial_floats(shape.v_size);
      std::vector<float> memory_floats(2 * tile.queries() * stride + 16);
      const auto aligned = [](std::vector<float>& floats) {
        auto address = reinterpret_cast<std::uintptr_t>(floats.data());
        return floats.data() + ((address + 63) / 64 * 64 - address) / sizeof(float);
      };
      float* merged = aligned(memory_floats);
      float* next = merged + tile.queries() * stride;
      attend_stretch(tile, 0, aligned(scratch), merged);
      for (std::size_t stretch = 1; stretch * kStretch < first_depth + tokens; ++stretch) {
        attend_stretch(tile, stretch, aligned(scratch), next);
        for (std::size_t query = 0; query < tile.queries(); ++query) {
          if (first_depth + query / shape.heads < stretch * kStretch) continue;
          merge_partial(merged + query * stride, next + query * stride, shape.v_size);
        }
      }
      std::vector<float> out(shape.v_size);
      for (std::size_t query = 0; query < tile.queries(); ++query) {
        const std::size_t depth = first_depth + query / shape.heads;
        finish_partial(merged + query * stride, shape.v_size, out.data());
        std::vector<double> scores(depth + 1);
        for (std::size_t d = 0; d <= depth; ++d) {
          scores[d] = scale * dot(&q[query * shape.k_size], &k[d * shape.k_size], shape.k_size);
        }
        const double max = *std::ranges::max_element(scores);
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - max);
        for (std::size_t i = 0; i < shape.v_size; ++i) {
          double expected = 0;
          for (std::size_t d = 0; d <= depth; ++d) expected += scores[d] / sum * v[d * shape.v_size + i];
          // A score's error of a few units of its size (up to about 10) becomes the weight's relative error.
          EXPECT_NEAR(out[i], expected, 100 * kUnit) << "depth " << depth << " k_size " << shape.k_size;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const testing::TestParamInfo<std::int64_t>& test) {
                           return std::string(hwy::TargetName(test.param));
                         });

}  // namespace
}  // namespace stemma::kernels
