#pragma once
// STEMMA_ASSERT(condition): a caller's promise, checked in debug and sanitizer builds only.

#ifdef STEMMA_CHECKED
#include <cstdio>
#include <cstdlib>
#define STEMMA_ASSERT(condition)                                                                  \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      std::fprintf(stderr, "%s:%d: promise broken: %s\n", __FILE__, __LINE__, #condition);        \
      std::abort();                                                                               \
    }                                                                                             \
  } while (false)
#else
#define STEMMA_ASSERT(condition) static_cast<void>(0)
#endif
