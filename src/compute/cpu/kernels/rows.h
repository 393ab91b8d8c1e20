#pragma once
// Kernels over one row (or one run of columns) of f32: norms, activations, rotation, conversion. All are pure,
// dispatched at run time to the best instruction set, and O(n). Arrays need no alignment; y may equal an input.

#include <cstddef>
#include <cstdint>

namespace stemma::kernels {

// The instruction set the kernels run on here, e.g. "AVX3_DL".
const char* target_name();

// y = x / sqrt(mean(x^2) + eps) * weight
void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* y);

// y = x / sqrt(sum(x^2) + eps)
void l2_norm(const float* x, float eps, std::size_t n, float* y);

// y = a + b
void add(const float* a, const float* b, std::size_t n, float* y);

// y = silu(gate) * x
void silu_mul(const float* gate, const float* x, std::size_t n, float* y);

// y = sigmoid(gate) * x
void sigmoid_mul(const float* gate, const float* x, std::size_t n, float* y);

// y = sigmoid(x)
void sigmoid(const float* x, std::size_t n, float* y);

// y = a * softplus(x + bias)
void softplus_gate(const float* x, const float* a, const float* bias, std::size_t n, float* y);

// Rotates `pairs` pairs of x by the angles whose cosines and sines are given: pair i is (x[i], x[i + pairs]).
void rope_halves(const float* x, const float* cosines, const float* sines, std::size_t pairs, float* y);

// The same, where pair i is (x[2i], x[2i + 1]).
void rope_neighbours(const float* x, const float* cosines, const float* sines, std::size_t pairs, float* y);

// To IEEE half precision, rounded to nearest even.
void to_f16(const float* x, std::size_t n, std::uint16_t* y);

}  // namespace stemma::kernels
