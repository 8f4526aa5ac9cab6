#include "execd/run/oom_watch.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// A command's end comes within microseconds of its kill; of ten kills in a row one line tells.
constexpr int64_t kLaterUs = 1'000'000;

}  // namespace

OomWatch::OomWatch(Core* core) : core_(*core) {
  uint32_t what = EPOLLIN;
  if (core_.accounts.present()) {
    heard_on_ = Accounts::OomEvents();
  } else if (core_.cgroup_fd >= 0) {
    auto file = sys::OpenAt(core_.cgroup_fd, "memory.events", O_RDONLY);
    if (!file) return;
    events_ = std::move(*file);
    heard_on_ = events_.get();
    what = EPOLLPRI;
  }
  if (heard_on_ < 0) return;
  // What it holds now is no news; the kernel polls what has changed since it was read.
  core_.oom_kills_noted = core_.OomKills();
  char bytes[512];
  [[maybe_unused]] const ssize_t ignored = ::read(heard_on_, bytes, sizeof bytes);
  const auto watched = core_.loop.Watch(heard_on_, what, [this](uint32_t) { Hear(); });
  if (watched) watch_ = *watched;
}

OomWatch::~OomWatch() {
  core_.loop.Cancel(later_);
  if (watch_ != 0) core_.loop.Unwatch(watch_);
}

void OomWatch::Hear() {
  char bytes[512];
  const ssize_t n =
      events_ ? ::pread(heard_on_, bytes, sizeof bytes, 0) : ::read(heard_on_, bytes, sizeof bytes);
  // The group has gone.
  if (n <= 0 && events_) return core_.loop.Unwatch(std::exchange(watch_, 0));
  if (later_ == 0) later_ = core_.loop.After(kLaterUs, [this] { Count(); });
}

void OomWatch::Count() {
  later_ = 0;
  core_.NoteOomKills();
}

}  // namespace atl::execd
