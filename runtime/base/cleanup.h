// Runs a function when it goes out of scope, unless released. The failure path can then be written
// first:
//
//   auto undo = Cleanup([&] { rmdir(path); });
//   ATOLL_TRY(Fill(path));
//   undo.Release();
#pragma once

#include <utility>

namespace atl {

template <typename F>
class [[nodiscard]] Cleanup {
 public:
  explicit Cleanup(F function) : function_(std::move(function)) {}
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  ~Cleanup() {
    if (armed_) function_();
  }
  void Release() { armed_ = false; }

 private:
  F function_;
  bool armed_ = true;
};

}  // namespace atl
