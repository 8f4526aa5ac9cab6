#include "runtime/spawner/memory/fetch_back.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

constexpr unsigned kFetchSeconds = 5;
// A sandbox can make everything that is read here longer, up to these bounds: processes by
// pids.max, groups by commands, mappings up to the kernel's 65,530 of each process.
constexpr size_t kMostGroups = 4096;
constexpr size_t kMostProcesses = 4096;
constexpr size_t kProcsBytes = 64 << 10;
constexpr size_t kMapsBytes = 8 << 20;  // limit for one process
constexpr size_t kRanges = 512;         // limit for one call; UIO_MAXIOV is 1024

// A parsed line of /proc/PID/maps, "7f12-7f34 rw-p 00000000 00:01 1024 /path" (proc(5)).
struct Mapping {
  uint64_t begin = 0, end = 0;
  uint32_t major = 0, minor = 0;
  uint64_t inode = 0;
};

bool Take(std::string_view* text, int base, char until, uint64_t* value) {
  const auto [rest, error] =
      std::from_chars(text->data(), text->data() + text->size(), *value, base);
  const auto taken = static_cast<size_t>(rest - text->data());
  if (error != std::errc() || taken >= text->size() || (*text)[taken] != until) return false;
  text->remove_prefix(taken + 1);
  return true;
}

bool ParseMapping(std::string_view line, Mapping* mapping) {
  uint64_t offset = 0, major = 0, minor = 0;
  if (!Take(&line, 16, '-', &mapping->begin) || !Take(&line, 16, ' ', &mapping->end)) return false;
  if (line.size() < 5) return false;
  line.remove_prefix(5);  // "rw-p "
  if (!Take(&line, 16, ' ', &offset) || !Take(&line, 16, ':', &major) ||
      !Take(&line, 16, ' ', &minor) || !Take(&line, 10, ' ', &mapping->inode)) {
    return false;
  }
  mapping->major = static_cast<uint32_t>(major);
  mapping->minor = static_cast<uint32_t>(minor);
  return true;
}

class Fetch {
 public:
  Fetch(const cgroup::Tree& cgroups, const std::string& group) : cgroups_(cgroups), group_(group) {
    // The kernel's own tmpfs, which holds memfds, shared anonymous mappings and System V memory.
    const int memfd = ::memfd_create("atoll-fetch", MFD_CLOEXEC);
    struct stat info {};
    if (memfd >= 0 && ::fstat(memfd, &info) == 0) shared_device_ = info.st_dev;
    ::close(memfd);
  }

  // Reads every process of the group and of the groups below it, of which there are few levels.
  void Groups(int directory, int depth) {
    if (++groups_ > kMostGroups || depth > 6) return;
    if (const auto procs = sys::ReadFileAt(directory, "cgroup.procs", kProcsBytes)) {
      std::string_view rest = *procs;
      uint64_t pid = 0;
      while (Take(&rest, 10, '\n', &pid)) Process(static_cast<pid_t>(pid));
    }
    [[maybe_unused]] const Status read = sys::EachName(directory, [&](const char* name) {
      // Names of the kernel's own files contain a dot.
      if (std::string_view(name).find('.') != std::string_view::npos) return true;
      if (const auto below = sys::OpenAt(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
        Groups(below->get(), depth + 1);
      }
      return groups_ <= kMostGroups;
    });
  }

  void Process(pid_t pid) {
    if (++processes_ > kMostProcesses || pid == done_) return;
    if (done_ == 0) done_ = pid;
    // Opens the pidfd first and looks at the process afterwards. The number may be another
    // process's by now: if that one is not in the group, it is left alone. If it is, the descriptor
    // refers to it, or to nobody.
    const auto pidfd = sys::PidfdOpen(pid);
    if (!pidfd || !cgroups_.Holds(group_, pid).value_or(false)) return;
    const auto maps = sys::Open("/proc/" + std::to_string(pid) + "/maps", O_RDONLY);
    if (!maps) return;
    std::string text;
    std::array<char, 16384> chunk;
    size_t total = 0;
    for (;;) {
      const ssize_t n = TEMP_FAILURE_RETRY(::read(maps->get(), chunk.data(), chunk.size()));
      if (n <= 0 || (total += static_cast<size_t>(n)) > kMapsBytes) break;
      text.append(chunk.data(), static_cast<size_t>(n));
      const size_t whole = text.rfind('\n') + 1;
      Lines(pidfd->get(), std::string_view(text).substr(0, whole));
      text.erase(0, whole);
    }
    Ask(pidfd->get());
  }

 private:
  void Lines(int pidfd, std::string_view text) {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n') + 1);
      text.remove_prefix(line.size());
      Mapping mapping;
      if (!ParseMapping(line, &mapping)) continue;
      // [vsyscall] is at an address of the kernel's. Such a range would have the whole call refused
      // (EFAULT).
      if (mapping.end >> 63 != 0) continue;
      // Skips files, because the call would read them into the page cache, charged to the spawner.
      const bool anonymous = mapping.inode == 0;
      const bool shared = shared_device_ != 0 && mapping.major == ::gnu_dev_major(shared_device_) &&
                          mapping.minor == ::gnu_dev_minor(shared_device_);
      if (!anonymous && !shared) continue;
      ranges_.push_back({reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin});
      if (ranges_.size() == kRanges) Ask(pidfd);
    }
  }

  void Ask(int pidfd) {
    size_t at = 0;
    while (at < ranges_.size()) {
      const ssize_t n =
          ::process_madvise(pidfd, ranges_.data() + at, ranges_.size() - at, MADV_WILLNEED, 0);
      if (n < 0 && (errno == ESRCH || errno == EPERM)) break;
      // The call returns how many bytes were fine, and ends at the first range that is not: a range
      // that is gone by now, or that it does not support (the kernel's own, [vvar]).
      auto done = static_cast<size_t>(n < 0 ? 0 : n);
      while (at < ranges_.size() && done >= ranges_[at].iov_len) done -= ranges_[at++].iov_len;
      ++at;
    }
    ranges_.clear();
  }

  const cgroup::Tree& cgroups_;
  const std::string& group_;
  dev_t shared_device_ = 0;
  size_t groups_ = 0;
  size_t processes_ = 0;
  pid_t done_ = 0;  // the process that was looked at first
  std::vector<iovec> ranges_;
};

void FetchBack(const cgroup::Tree& cgroups, const std::string& group, pid_t first, int directory) {
  ::alarm(kFetchSeconds);
  Fetch fetch(cgroups, group);
  fetch.Process(first);
  fetch.Groups(directory, 0);
}

}  // namespace

Result<pid_t> StartFetchBack(const cgroup::Tree& cgroups, const std::string& group, pid_t first) {
  ATOLL_ASSIGN(const UniqueFd directory, cgroups.OpenDir(group, ""));
  return StartWorker({.name = "atoll-fetch", .nice = 5}, {directory.get()},
                     [&] { FetchBack(cgroups, group, first, directory.get()); });
}

}  // namespace atl::spawner
