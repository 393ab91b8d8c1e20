#include "compute/cpu/kernels/amx.h"

#include "hwy/detect_targets.h"

#if HWY_ARCH_X86_64 && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace stemma::kernels {

#if HWY_ARCH_X86_64 && defined(__linux__)

bool amx_available() {
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;  // of leaf 7's edx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, Linux 5.16
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool amx_available() { return false; }

#endif

}  // namespace stemma::kernels
