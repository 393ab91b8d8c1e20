#pragma once
// What this machine can do at most, measured: the roofs that kernels are held against.

namespace stemma {

// Multiply-adds a second of `threads` threads, in registers alone: of f32, of 8-bit integers as kernels/dots-inl.h does them, and
// with AMX's tiles; 0 where there is no AMX.
double peak_f32(int threads);
double peak_i8(int threads);
double peak_amx(int threads);

}  // namespace stemma
