// The last words of the virtual machine: what its serial console and its monitor have said.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::guard {

class Console {
 public:
  static constexpr size_t kKept = 4096;

  // `loop` is borrowed.
  explicit Console(EventLoop& loop) : loop_(loop) {}
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console() { loop_.Unwatch(watch_); }

  // Reads to its end what is written to the returned end.
  Result<UniqueFd> Open();

  // The last kKept bytes, read without waiting. Control characters, and all that is not ASCII, are
  // shown as '?', lines stay lines: a guest wrote it.
  std::string Tail();

 private:
  void Read();

  EventLoop& loop_;
  UniqueFd read_;
  EventLoop::Id watch_ = 0;
  std::string text_;
};

// Makes a guest's text harmless.
std::string Shown(std::string_view text);

}  // namespace atl::guard
