#include "execd/run/limit_watch.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Delay of a report, because a command's end follows its kill within microseconds. It also merges
// ten kills in a row into one report.
constexpr int64_t kAfterKillUs = 1'000'000;
// Interval between reports, because a fork bomb fails thousands of times a second for as long as it
// lives.
constexpr int64_t kBetweenForksUs = 60'000'000;

bool IsMemory(LimitEvent event) {
  return event == LimitEvent::kOomKill;
}

}  // namespace

LimitWatch::LimitWatch(Core* core) : core_(*core) {
  Open(LimitEvent::kOomKill);
  Open(LimitEvent::kForkRefused);
}

LimitWatch::~LimitWatch() {
  for (const Source& source : sources_) {
    core_.loop.Cancel(source.rest);
    if (source.watch != 0) core_.loop.Unwatch(source.watch);
  }
}

void LimitWatch::Open(LimitEvent event) {
  Source& source = sources_[static_cast<size_t>(event)];
  if (core_.accounts.present()) {
    if (IsMemory(event)) source.fd = Accounts::OomEvents();
  } else if (core_.cgroup_fd >= 0) {
    const char* const name = IsMemory(event) ? "memory.events" : "pids.events";
    auto file = sys::OpenAt(core_.cgroup_fd, name, O_RDONLY);
    if (!file) return;
    source.fd = file->get();
    core_.limit_files[static_cast<size_t>(event)] = std::move(*file);
  }
  // The present count is not reported. The kernel's poll reports changes since the last read.
  core_.Noted(event) = core_.Count(event);
  if (source.fd >= 0) Listen(event);
}

void LimitWatch::Listen(LimitEvent event) {
  Source& source = sources_[static_cast<size_t>(event)];
  const auto watched = core_.loop.Watch(source.fd, core_.accounts.present() ? EPOLLIN : EPOLLPRI,
                                        [this, event](uint32_t) { Hear(event); });
  if (watched) source.watch = *watched;
}

void LimitWatch::Hear(LimitEvent event) {
  Source& source = sources_[static_cast<size_t>(event)];
  core_.loop.Unwatch(std::exchange(source.watch, 0));
  char bytes[512];
  const ssize_t n = core_.accounts.present() ? ::read(source.fd, bytes, sizeof bytes)
                                             : ::pread(source.fd, bytes, sizeof bytes, 0);
  if (n <= 0) return;  // the cgroup was removed
  if (!IsMemory(event)) core_.Note(event);
  source.rest =
      core_.loop.After(IsMemory(event) ? kAfterKillUs : kBetweenForksUs, [this, event, &source] {
        source.rest = 0;
        if (IsMemory(event)) core_.Note(event);
        Listen(event);
      });
}

}  // namespace atl::execd
