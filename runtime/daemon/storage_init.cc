#include "runtime/daemon/storage_init.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "cgroup/limits_text.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/privileges.h"
#include "runtime/spawner/store/store_image.h"

namespace atl::daemon {
namespace {

// mkfs.xfs refuses less than 300 MiB (xfsprogs 5.19).
constexpr uint64_t kMinSize = 512ULL << 20;
// Space left for the host's other files, including the daemon's own state.
constexpr uint64_t kLeave = 1ULL << 30;
constexpr std::array kPrograms = {"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs",
                                  "/usr/local/sbin/mkfs.xfs"};

std::string Mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

Result<std::string> FindMkfs() {
  for (const char* path : kPrograms) {
    if (::access(path, X_OK) == 0) return std::string(path);
  }
  return Fail(Code::kNotFound, "mkfs.xfs is not installed: apt-get install xfsprogs");
}

// Its error messages go to our standard error.
Status RunMkfs(const std::string& program, const std::string& image) {
  // -K keeps the reserved space, which a discard would give back.
  std::vector<std::string> words = {program, "-q", "-K", "-L", "atoll-store", image};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<char*, 1> environment = {nullptr};
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv.data(), environment.data());
  if (error != 0) return Fail(SysError("posix_spawn " + program, error));
  int status = 0;
  if (TEMP_FAILURE_RETRY(::waitpid(pid, &status, 0)) != pid) return FailSys("waitpid " + program);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Fail(Code::kInternal, program + " " + image + " failed; see its messages above");
  }
  return {};
}

// Returns the requested size, or half of the free space.
Result<uint64_t> ChooseSize(const std::string& asked, const std::string& data_dir) {
  struct statvfs info {};
  if (::statvfs(data_dir.c_str(), &info) != 0) return FailSys("statvfs " + data_dir);
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  uint64_t size = free / 2;
  if (!asked.empty()) {
    ATOLL_ASSIGN(size, cgroup::ParseBytes(asked));
  }
  if (!asked.empty() && size < kMinSize) {
    return Fail(Code::kInvalidArgument,
                "--size " + asked + ": at least " + Mebibytes(kMinSize) + ", which XFS needs");
  }
  if (size < kMinSize || size > free || free - size < kLeave) {
    return Fail(Code::kResourceExhausted,
                data_dir + " has " + Mebibytes(free) + " free: not enough for a store of " +
                    Mebibytes(std::max(size, kMinSize)) + " and " + Mebibytes(kLeave) +
                    " that are left for the host; make room, or use a smaller --size");
  }
  return size;
}

// Reserves the space now. A store on a sparse file could find the host's disk full in the middle of
// a write, and XFS would then shut down under every sandbox. Reserving also shows the operator at
// once what sandboxes may fill.
Status Reserve(int file, const std::string& path, uint64_t size) {
  if (::fallocate(file, 0, 0, static_cast<off_t>(size)) == 0) return {};
  if (errno != EOPNOTSUPP) return FailSys("fallocate " + path + " " + Mebibytes(size));
  (void)std::fprintf(stderr,
                     "warning: the file system of %s cannot reserve space; keep %s free there\n",
                     path.c_str(), Mebibytes(size).c_str());
  if (::ftruncate(file, static_cast<off_t>(size)) != 0) return FailSys("ftruncate " + path);
  return {};
}

Status MakeImage(const std::string& data_dir, uint64_t size) {
  ATOLL_ASSIGN(const std::string mkfs, FindMkfs());
  const std::string image = spawner::StoreImagePath(data_dir);
  const std::string unfinished = image + ".new";
  ATOLL_ASSIGN(const UniqueFd file,
               sys::Open(unfinished, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  Cleanup remove([&] { ::unlink(unfinished.c_str()); });
  ATOLL_TRY(Reserve(file.get(), unfinished, size));
  ATOLL_TRY(RunMkfs(mkfs, unfinished));
  // Only a trial tells for certain whether this kernel's XFS has quotas.
  if (auto mount = spawner::MountImage(unfinished); !mount) {
    return Fail(std::move(mount).error().Wrap("disk limits cannot be enforced on this host"));
  }
  if (::fsync(file.get()) != 0) return FailSys("fsync " + unfinished);
  if (::rename(unfinished.c_str(), image.c_str()) != 0) return FailSys("rename to " + image);
  remove.Release();
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(data_dir, O_RDONLY | O_DIRECTORY));
  if (::fsync(directory.get()) != 0) return FailSys("fsync " + data_dir);
  return {};
}

Status RefuseMount(const std::string& data_dir) {
  const std::string store = data_dir + "/store";
  if (!spawner::IsMountPoint(store)) return {};
  return Fail(Code::kFailedPrecondition,
              "a file system is already mounted on " + store +
                  " : 'atoll doctor' shows whether it enforces disk limits");
}

Status RefuseContent(const std::string& data_dir) {
  const std::string store = data_dir + "/store";
  ATOLL_ASSIGN(const bool content, spawner::StoreHasContent(data_dir));
  if (!content) return {};
  const std::string image = spawner::StoreImagePath(data_dir);
  return Fail(Code::kFailedPrecondition,
              store + " already has images, which the new store would hide. To move them:\n  mv " +
                  store + " " + store + ".old\n  atolld storage init --data-dir " + data_dir +
                  "\n  mount -o loop,prjquota " + image + " /mnt\n  cp -a " + store +
                  ".old/fs /mnt/\n  umount /mnt\n  rm -r " + store + ".old");
}

}  // namespace

Status InitStorage(const Config& config, const std::string& asked_size) {
  ATOLL_TRY(RequireRoot());
  ATOLL_ASSIGN(const User user, FindUser(config.user));
  const std::string image = spawner::StoreImagePath(config.data_dir);
  if (::access(image.c_str(), F_OK) == 0) {
    std::printf("%s already exists; nothing to do\n", image.c_str());
    return {};
  }
  ATOLL_TRY(MakeDirectories(config, user));
  ATOLL_ASSIGN(const Locks locks, LockDirectories(config));
  ATOLL_TRY(RefuseMount(config.data_dir));
  ATOLL_ASSIGN(const UniqueFd store, LockStore(config));
  ATOLL_TRY(RefuseContent(config.data_dir));
  ATOLL_ASSIGN(const uint64_t size, ChooseSize(asked_size, config.data_dir));
  ATOLL_TRY(MakeImage(config.data_dir, size));
  std::printf("made %s, %s; the spawner mounts it when it starts\n", image.c_str(),
              Mebibytes(size).c_str());
  return {};
}

}  // namespace atl::daemon
