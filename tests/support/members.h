// Counts the members of an aggregate: the largest number of values that it can be initialized from.
// Tests use it to check that a list of fields is complete.
#pragma once

#include <cstddef>

namespace atl {

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor): that is what it is for
};

template <typename T, typename... Values>
consteval size_t Members() {
  if constexpr (requires { T{Values()..., Anything()}; }) {
    return Members<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

}  // namespace atl
