#include "runtime/spawner/host/disk_use.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/store/projects.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxWalks = 4;
constexpr int kNice = 10;  // yields to a build
constexpr uint64_t kMaxEntries = 1'000'000;
constexpr size_t kMaxDepth = 200;
constexpr int64_t kMaxMicros = 3'000'000;

class Walk {
 public:
  // Opens one component at a time, without following a link. Whatever a sandbox moves meanwhile,
  // the walk stays in directories that were beneath the first. Each level holds two descriptors.
  void Visit(int directory, size_t depth) {
    const Status read =
        sys::EachName(directory, [&](const char* name) { return Entry(directory, name, depth); });
    if (!read) use_.complete = false;
  }
  const wire::DiskUse& use() const { return use_; }

 private:
  // Returns false if a bound was met.
  bool Entry(int directory, const char* name, size_t depth) {
    struct stat info {};
    if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
    ++use_.entries;
    const uint64_t links = S_ISDIR(info.st_mode) ? 1 : std::max<uint64_t>(info.st_nlink, 1);
    use_.bytes += static_cast<uint64_t>(info.st_blocks) * 512 / links;
    if (use_.entries >= kMaxEntries || SystemClock().BootMicros() > deadline_us_) over_ = true;
    if (!over_ && S_ISDIR(info.st_mode)) {
      const auto next = sys::OpenAt(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (next && depth < kMaxDepth) {
        Visit(next->get(), depth + 1);
      } else {
        use_.complete = false;
      }
    }
    if (over_) use_.complete = false;
    return !over_;
  }

  const int64_t deadline_us_ = SystemClock().BootMicros() + kMaxMicros;
  wire::DiskUse use_;
  bool over_ = false;
};

}  // namespace

wire::DiskUse CountTree(int directory) {
  Walk walk;
  walk.Visit(directory, 0);
  return walk.use();
}

void DiskUses::Count(const std::string& path, Done done) {
  const auto directory = sys::OpenAt(host_.store.root(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) return done(Fail(directory.error()));
  if (host_.store.HasQuota()) {
    // A volume without a limit may have no project.
    if (const auto charged = ChargedTo(directory->get())) {
      return done(wire::DiskUse{charged->bytes, charged->inodes, true});
    }
  }
  if (runs_.size() >= kMaxWalks) {
    return done(
        Fail(Code::kResourceExhausted,
             std::to_string(kMaxWalks) + " directories are being counted; try again later"));
  }
  auto pipe = sys::MakePipe();
  if (!pipe) return done(Fail(std::move(pipe).error()));
  const int result = pipe->write.get();
  const auto pid =
      StartWorker({.name = "atoll-disk-use", .nice = kNice}, {directory->get(), result}, [&] {
        [[maybe_unused]] const Status told =
            sys::WriteAll(result, wire::EncodeFields(CountTree(directory->get())));
      });
  if (!pid) return done(Fail(pid.error()));
  ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  runs_[*pid] = Run{std::move(pipe->read), std::move(done)};
}

bool DiskUses::OnChildExit(pid_t pid) {
  const auto found = runs_.find(pid);
  if (found == runs_.end()) return false;
  const Run run = std::move(found->second);
  runs_.erase(found);
  const auto bytes = sys::ReadAll(run.result.get(), 64);
  wire::DiskUse use;
  if (bytes && wire::DecodeFields(*bytes, &use)) {
    run.done(use);
  } else {
    run.done(Fail(Code::kInternal, "atoll-volumes, which counts what a volume holds, died"));
  }
  return true;
}

}  // namespace atl::spawner
