#pragma once
// What this machine can do at most, measured: the roofs that kernels are held against.

namespace stemma {

// Multiply-adds a second of `threads` threads, in registers alone: of f32, and of 8-bit integers as kernels/dots-inl.h does
// them.
double peak_f32(int threads);
double peak_i8(int threads);

}  // namespace stemma
