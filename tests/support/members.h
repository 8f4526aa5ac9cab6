// How many members an aggregate has: the most values that it can be made of. For tests that a list
// of fields leaves none out.
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
