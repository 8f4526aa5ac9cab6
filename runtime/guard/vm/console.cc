#include "runtime/guard/vm/console.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::guard {

Result<UniqueFd> Console::Open() {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl console");
  read_ = std::move(pipe.read);
  ATOLL_ASSIGN(watch_, loop_.Watch(read_.get(), EPOLLIN, [this](uint32_t) { Read(); }));
  return std::move(pipe.write);
}

void Console::Read() {
  // The guest can write without end. One turn takes a bounded part.
  for (int i = 0; i < 16; ++i) {
    char bytes[kKept];
    const ssize_t n = TEMP_FAILURE_RETRY(::read(read_.get(), bytes, sizeof bytes));
    if (n == 0) loop_.Unwatch(std::exchange(watch_, 0));
    if (n <= 0) return;
    text_.append(bytes, static_cast<size_t>(n));
    if (text_.size() > kKept) text_.erase(0, text_.size() - kKept);
  }
}

std::string Console::Tail() {
  if (read_) Read();
  return Shown(text_);
}

std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\r') continue;
    const bool plain = (c >= ' ' && c <= '~') || c == '\n' || c == '\t';
    shown.push_back(plain ? c : '?');
  }
  return shown;
}

}  // namespace atl::guard
