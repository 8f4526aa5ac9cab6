#include "execd/core/accounts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "execd/core/numbers.h"

namespace atl::execd {
namespace {

constexpr int kFiles = static_cast<int>(wire::ExecdAccount::kCount);

// Reads a kernel file of a few lines; returns empty if there is nothing to read.
std::string_view Read(int fd, char* buffer, size_t size) {
  const ssize_t n = ::pread(fd, buffer, size, 0);
  return n > 0 ? std::string_view(buffer, static_cast<size_t>(n)) : std::string_view();
}

}  // namespace

int64_t ReadCount(int file, LimitEvent event) {
  char buffer[512];
  return KeyNumber(Read(file, buffer, sizeof buffer),
                   event == LimitEvent::kOomKill ? "oom_kill" : "max")
      .value_or(0);
}

Accounts Accounts::Inherited() {
  for (int i = 0; i < kFiles; ++i) {
    struct stat info;
    const bool file = i != static_cast<int>(wire::ExecdAccount::kOomEvents);
    if (::fstat(wire::kExecdAccountsFd + i, &info) != 0 || S_ISREG(info.st_mode) != file) return {};
  }
  return Accounts(wire::kExecdAccountsFd);
}

std::optional<int64_t> Accounts::Number(wire::ExecdAccount account) const {
  if (!present()) return {};
  char buffer[256];
  return ToNumber(Read(first_ + static_cast<int>(account), buffer, sizeof buffer));
}

int Accounts::OomEvents() {
  return wire::kExecdAccountsFd + static_cast<int>(wire::ExecdAccount::kOomEvents);
}

int64_t Accounts::Count(LimitEvent event) const {
  if (!present()) return 0;
  const auto account = event == LimitEvent::kOomKill ? wire::ExecdAccount::kOomControl
                                                     : wire::ExecdAccount::kPidsEvents;
  return ReadCount(first_ + static_cast<int>(account), event);
}

}  // namespace atl::execd
