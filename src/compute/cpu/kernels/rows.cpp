#include "compute/cpu/kernels/rows.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* y) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const Vec scale = hn::Set(Floats(), 1.0f / std::sqrt(mean + eps));
  map(n, y, [=](auto load) HWY_ATTR { return hn::Mul(hn::Mul(load(x), scale), load(weight)); });
}

void L2Norm(const float* x, float eps, size_t n, float* y) {
  const Vec scale = hn::Set(Floats(), 1.0f / std::sqrt(sum_of_squares(x, n) + eps));
  map(n, y, [=](auto load) HWY_ATTR { return hn::Mul(load(x), scale); });
}

void Add(const float* a, const float* b, size_t n, float* y) {
  map(n, y, [=](auto load) HWY_ATTR { return hn::Add(load(a), load(b)); });
}

void SiluMul(const float* gate, const float* x, size_t n, float* y) {
  map(n, y, [=](auto load) HWY_ATTR { return hn::Mul(silu(load(gate)), load(x)); });
}

void SigmoidMul(const float* gate, const float* x, size_t n, float* y) {
  map(n, y, [=](auto load) HWY_ATTR { return hn::Mul(HWY_NAMESPACE::sigmoid(load(gate)), load(x)); });
}

void Sigmoid(const float* x, size_t n, float* y) {
  map(n, y, [=](auto load) HWY_ATTR { return HWY_NAMESPACE::sigmoid(load(x)); });
}

void SoftplusGate(const float* x, const float* a, const float* bias, size_t n, float* y) {
  map(n, y, [=](auto load) HWY_ATTR { return hn::Mul(load(a), softplus(hn::Add(load(x), load(bias)))); });
}

// y0 = x0 cos - x1 sin, y1 = x0 sin + x1 cos, each with one fused operation.
HWY_INLINE void rotate(Vec x0, Vec x1, Vec c, Vec s, Vec& y0, Vec& y1) {
  y0 = hn::NegMulAdd(x1, s, hn::Mul(x0, c));
  y1 = hn::MulAdd(x1, c, hn::Mul(x0, s));
}

void RopeHalves(const float* x, const float* cosines, const float* sines, size_t pairs, float* y) {
  const Floats d;
  Vec y0, y1;
  size_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    rotate(hn::LoadU(d, x + i), hn::LoadU(d, x + pairs + i), hn::LoadU(d, cosines + i), hn::LoadU(d, sines + i), y0,
           y1);
    hn::StoreU(y0, d, y + i);
    hn::StoreU(y1, d, y + pairs + i);
  }
  if (const size_t rest = pairs - i; rest != 0) {
    rotate(load_part(x + i, rest), load_part(x + pairs + i, rest), load_part(cosines + i, rest),
           load_part(sines + i, rest), y0, y1);
    store_part(y0, y + i, rest);
    store_part(y1, y + pairs + i, rest);
  }
}

// Lays the pairs out as halves, a vector of pairs at a time.
void RopeNeighbours(const float* x, const float* cosines, const float* sines, size_t pairs, float* y) {
  const Floats d;
  for (size_t i = 0; i < pairs; i += kLanes) {
    const size_t count = HWY_MIN(kLanes, pairs - i);
    HWY_ALIGN float first[kLanes] = {}, second[kLanes] = {};
    for (size_t j = 0; j < count; ++j) {
      first[j] = x[2 * (i + j)];
      second[j] = x[2 * (i + j) + 1];
    }
    Vec y0, y1;
    rotate(hn::Load(d, first), hn::Load(d, second), load_part(cosines + i, count), load_part(sines + i, count), y0,
           y1);
    hn::Store(y0, d, first);
    hn::Store(y1, d, second);
    for (size_t j = 0; j < count; ++j) {
      y[2 * (i + j)] = first[j];
      y[2 * (i + j) + 1] = second[j];
    }
  }
}

void ToF16(const float* x, size_t n, uint16_t* y) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_halves(hn::LoadU(Floats(), x + i), y + i);
  if (i < n) {
    HWY_ALIGN uint16_t part[kLanes];
    store_halves(load_part(x + i, n - i), part);
    std::memcpy(y + i, part, (n - i) * sizeof(uint16_t));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(TargetName);
HWY_EXPORT(RmsNorm);
HWY_EXPORT(L2Norm);
HWY_EXPORT(Add);
HWY_EXPORT(SiluMul);
HWY_EXPORT(SigmoidMul);
HWY_EXPORT(Sigmoid);
HWY_EXPORT(SoftplusGate);
HWY_EXPORT(RopeHalves);
HWY_EXPORT(RopeNeighbours);
HWY_EXPORT(ToF16);

const char* target_name() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, weight, eps, n, y);
}

void l2_norm(const float* x, float eps, std::size_t n, float* y) { HWY_DYNAMIC_DISPATCH(L2Norm)(x, eps, n, y); }

void add(const float* a, const float* b, std::size_t n, float* y) { HWY_DYNAMIC_DISPATCH(Add)(a, b, n, y); }

void silu_mul(const float* gate, const float* x, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(SiluMul)(gate, x, n, y);
}

void sigmoid_mul(const float* gate, const float* x, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(SigmoidMul)(gate, x, n, y);
}

void sigmoid(const float* x, std::size_t n, float* y) { HWY_DYNAMIC_DISPATCH(Sigmoid)(x, n, y); }

void softplus_gate(const float* x, const float* a, const float* bias, std::size_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(SoftplusGate)(x, a, bias, n, y);
}

void rope_halves(const float* x, const float* cosines, const float* sines, std::size_t pairs, float* y) {
  HWY_DYNAMIC_DISPATCH(RopeHalves)(x, cosines, sines, pairs, y);
}

void rope_neighbours(const float* x, const float* cosines, const float* sines, std::size_t pairs, float* y) {
  HWY_DYNAMIC_DISPATCH(RopeNeighbours)(x, cosines, sines, pairs, y);
}

void to_f16(const float* x, std::size_t n, std::uint16_t* y) { HWY_DYNAMIC_DISPATCH(ToF16)(x, n, y); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
