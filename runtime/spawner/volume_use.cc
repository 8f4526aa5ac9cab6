#include "runtime/spawner/volume_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/wire/bytes.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxRuns = 4;
constexpr uint64_t kMaxEntries = 1'000'000;
constexpr size_t kMaxDepth = 256;  // a descriptor each
constexpr int64_t kMaxMicros = 3'000'000;

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, DirCloser>;

// One component, without following a link: whatever a sandbox moves about meanwhile, the walk stays
// in directories that were beneath the volume.
Dir OpenDir(int parent, const char* name) {
  UniqueFd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Dir dir(fd ? ::fdopendir(fd.get()) : nullptr);
  if (dir) [[maybe_unused]]
    const int owned_by_dir = fd.release();
  return dir;
}

[[noreturn]] void Child(int directory, int result) {
  constexpr int kResult = 3, kDirectory = 4, kAbove = 64;
  ::prctl(PR_SET_NAME, "atoll-volumes");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpriority(PRIO_PROCESS, 0, 10);  // never ahead of a build
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int lifted[] = {::fcntl(result, F_DUPFD_CLOEXEC, kAbove),
                        ::fcntl(directory, F_DUPFD_CLOEXEC, kAbove)};
  ::dup3(lifted[0], kResult, O_CLOEXEC);
  ::dup3(lifted[1], kDirectory, O_CLOEXEC);
  // The daemon's connection among them: it must end when the spawner's does.
  ::close_range(kDirectory + 1, ~0u, 0);
  const wire::VolumeUse use = CountTree(kDirectory);
  wire::Writer writer;
  writer.U64(use.bytes);
  writer.U64(use.entries);
  writer.U8(use.complete ? 1 : 0);
  ::_exit(sys::WriteAll(kResult, writer.Take()) ? 0 : 1);
}

}  // namespace

wire::VolumeUse CountTree(int directory) {
  wire::VolumeUse use;
  const int64_t deadline_us = SystemClock().BootMicros() + kMaxMicros;
  std::vector<Dir> open;
  open.push_back(OpenDir(directory, "."));
  use.complete = open.back() != nullptr;
  while (!open.empty() && open.back()) {
    DIR* const dir = open.back().get();
    const dirent* entry = ::readdir(dir);  // NOLINT(concurrency-mt-unsafe): own DIR
    if (entry == nullptr) {
      open.pop_back();
      continue;
    }
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (::fstatat(::dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    ++use.entries;
    const uint64_t links = S_ISDIR(info.st_mode) ? 1 : std::max<uint64_t>(info.st_nlink, 1);
    use.bytes += static_cast<uint64_t>(info.st_blocks) * 512 / links;
    if (use.entries >= kMaxEntries || SystemClock().BootMicros() > deadline_us) {
      use.complete = false;
      return use;
    }
    if (!S_ISDIR(info.st_mode)) continue;
    Dir next = open.size() < kMaxDepth ? OpenDir(::dirfd(dir), entry->d_name) : nullptr;
    if (next) {
      open.push_back(std::move(next));
    } else {
      use.complete = false;
    }
  }
  return use;
}

void VolumeUses::Count(const std::string& name, Done done) {
  if (runs_.size() >= kMaxRuns) {
    return done(Fail(Code::kResourceExhausted, "too many volumes are being counted, try again"));
  }
  const auto directory = sys::OpenAt(host_.store.root(), Store::VolumeDirectory(name),
                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) return done(Fail(directory.error()));
  auto pipe = sys::MakePipe();
  if (!pipe) return done(Fail(std::move(pipe).error()));
  const pid_t pid = ::fork();
  if (pid < 0) return done(FailSys("fork"));
  if (pid == 0) Child(directory->get(), pipe->write.get());
  runs_[pid] = Run{std::move(pipe->read), std::move(done)};
}

bool VolumeUses::OnChildExit(pid_t pid) {
  const auto found = runs_.find(pid);
  if (found == runs_.end()) return false;
  const Run run = std::move(found->second);
  runs_.erase(found);
  // It has ended, and with it the other end of the pipe: this does not block.
  const auto bytes = sys::ReadAll(run.result.get(), 64);
  wire::Reader reader(bytes ? std::string_view(*bytes) : std::string_view());
  wire::VolumeUse use;
  use.bytes = reader.U64();
  use.entries = reader.U64();
  use.complete = reader.U8() != 0;
  if (reader.complete()) {
    run.done(use);
  } else {
    run.done(Fail(Code::kInternal, "the process that counts died"));
  }
  return true;
}

}  // namespace atl::spawner
