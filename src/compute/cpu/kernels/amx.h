#pragma once
// Whether AMX's products of bytes can be used: a processor that has them, and a system that lets this process use them.

namespace stemma::kernels {

// Asks Linux for the tiles' registers, which a process gets when it asks for them and then keeps, in all its threads. O(1),
// some system calls; any thread.
bool amx_available();

}  // namespace stemma::kernels
