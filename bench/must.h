// For micro benchmarks: a value, or the end of the program with the error's message.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "runtime/base/result.h"

namespace atl::bench {

template <typename T>
T Must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bench: %s\n", result.error().message().c_str());
  std::exit(1);
}

inline void Must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "bench: %s\n", status.error().message().c_str());
  std::exit(1);
}

}  // namespace atl::bench
