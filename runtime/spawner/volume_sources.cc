#include "runtime/spawner/volume_sources.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/mounts.h"
#include "runtime/spawner/namespaces.h"
#include "runtime/spawner/slot_mounts.h"
#include "runtime/spawner/vfork_clone.h"

namespace atl::spawner {
namespace {

using wire::Volume;

struct Opened {
  UniqueFd mount;  // a clone, or nothing if none was wanted
  struct stat info {};
};

bool Named(const Volume& volume) {
  return volume.kind == Volume::Kind::kNamed;
}

std::string Name(const Volume& volume) {
  return Named(volume) ? "volume '" + volume.source + "'" : "host path '" + volume.source + "'";
}

bool Within(const std::string& path, const std::string& directory) {
  return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

// openat2 says EXDEV of what would lead out, ELOOP of a magic link (or of too many).
bool LeadsOut(const Error& error) {
  return error.error_number() == EXDEV || error.error_number() == ELOOP;
}

// Neither the client's mistake nor a refusal: the codes of those mean something to the daemon.
Error AsOurs(const std::string& what, const Error& error) {
  const Code code =
      error.code() == Code::kResourceExhausted ? Code::kResourceExhausted : Code::kInternal;
  return Error(code, what + ": " + error.message(), error.error_number());
}

// `path` beneath `top`, with what is missing of it made: mkdir -p, but each step by the descriptor
// of the one before it.
Result<UniqueFd> OpenOrMake(int top, const std::string& path, mode_t mode) {
  auto found = sys::OpenWithin(top, path, O_PATH);
  if (found || found.error().error_number() != ENOENT) return found;
  UniqueFd directory;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, end - begin);
    // From the top, because a link may climb as long as it stays beneath.
    auto next = sys::OpenWithin(top, path.substr(0, end), O_PATH | O_DIRECTORY);
    if (!next && next.error().error_number() == ENOENT) {
      const int parent = directory ? directory.get() : top;
      // Two builds may make the same one; a link that leads nowhere is told by the open.
      if (::mkdirat(parent, component.c_str(), mode) != 0 && errno != EEXIST) {
        return FailSys("mkdir " + path.substr(0, end));
      }
      next = sys::OpenBeneath(parent, component, O_PATH | O_DIRECTORY);
    }
    if (!next) return next;
    directory = std::move(*next);
    begin = end + 1;
  }
  return directory;
}

Result<std::string> RealPath(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) return FailSys("readlink " + link);
  return std::string(path, static_cast<size_t>(n));
}

// Whatever is allowed: neither our own directories, with the API key and everybody's files in them,
// nor what has them beneath itself.
Status CheckNotOurs(const Host& host, int fd, const Volume& volume) {
  ATOLL_ASSIGN(const std::string path, RealPath(fd));
  for (const std::string& own : {host.config.data_dir, host.config.run_dir}) {
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(own, O_PATH | O_DIRECTORY));
    ATOLL_ASSIGN(const std::string ours, RealPath(directory.get()));
    if (Within(path, ours) || Within(ours, path)) {
      return Fail(Code::kPermissionDenied,
                  Name(volume) + " holds Atoll's own files, or lies among them");
    }
  }
  return {};
}

Result<UniqueFd> OpenHostPath(const Host& host, const Volume& volume) {
  const std::string* allowed = AllowedAbove(host.config.host_paths, volume.source);
  if (allowed == nullptr) {
    return Fail(
        Code::kPermissionDenied,
        Name(volume) +
            " is not beneath a directory that the operator allows: add that to "
            "allowed_host_paths in [storage] (--host-path of the spawner) and restart both");
  }
  // Links above it are the operator's; itself it must not be one.
  auto top = sys::Open(*allowed, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!top) return Fail(AsOurs("the allowed directory", top.error()));
  if (volume.source.size() == allowed->size()) return top;
  auto opened = OpenOrMake(top->get(), volume.source.substr(allowed->size() + 1), 0755);
  if (opened) return opened;
  if (LeadsOut(opened.error())) {
    return Fail(Code::kPermissionDenied,
                Name(volume) + " leaves the allowed directory " + *allowed + " by a link");
  }
  return Fail(AsOurs(Name(volume), opened.error()));
}

Result<UniqueFd> OpenNamed(const Host& host, const Volume& volume) {
  auto opened = sys::Open(host.store.path() + "/" + Store::VolumeDirectory(volume.source),
                          O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!opened && opened.error().error_number() == ENOENT) {
    return Fail(Code::kNotFound, Name(volume) + " does not exist");
  }
  return opened;
}

Result<UniqueFd> OpenSubPath(int top, const Volume& volume) {
  // As its parent for named ones, so that a sandbox's user need not be root to write.
  auto opened = OpenOrMake(top, volume.sub_path, Named(volume) ? 0777 : 0755);
  if (opened) return opened;
  const std::string what = Name(volume) + ", sub path '" + volume.sub_path + "'";
  if (LeadsOut(opened.error())) {
    return Fail(Code::kInvalidArgument, what + " leaves the volume by a link");
  }
  if (opened.error().error_number() == ENOTDIR || opened.error().error_number() == EEXIST) {
    return Fail(Code::kInvalidArgument, what + " passes through something that is no directory");
  }
  return Fail(AsOurs(what, opened.error()));
}

Status CheckFile(const Volume& volume, const struct stat& info) {
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    return Fail(Code::kPermissionDenied,
                Name(volume) + " is neither a directory nor a regular file");
  }
  if (Named(volume) || volume.read_only) return {};
  if (info.st_uid == 0) {
    return Fail(Code::kPermissionDenied,
                Name(volume) +
                    " belongs to root, and so would what a sandbox writes there: chown it to the "
                    "user to whom the files shall belong, or mount it with readOnly");
  }
  // New files would take its group.
  if (info.st_gid == 0 && (info.st_mode & S_ISGID) != 0) {
    return Fail(Code::kPermissionDenied,
                Name(volume) + " hands the group root on (set-group-ID): chgrp it first");
  }
  return {};
}

// Runs in the host's mount namespace.
Result<Opened> OpenSource(const Host& host, const Volume& volume, bool clone) {
  ATOLL_ASSIGN(UniqueFd source,
               Named(volume) ? OpenNamed(host, volume) : OpenHostPath(host, volume));
  if (!volume.sub_path.empty()) {
    ATOLL_ASSIGN(source, OpenSubPath(source.get(), volume));
  }
  Opened opened;
  if (::fstat(source.get(), &opened.info) != 0) return FailSys("fstat " + Name(volume));
  ATOLL_TRY(CheckFile(volume, opened.info));
  if (!Named(volume)) ATOLL_TRY(CheckNotOurs(host, source.get(), volume));
  // With what is mounted beneath: a copy without it would show what the mounts hide.
  if (clone) {
    ATOLL_ASSIGN(opened.mount, CloneMount(source.get(), "", true));
  }
  return opened;
}

struct Job {
  const Host* host;
  std::span<const Volume> volumes;
  bool clone;
  std::vector<Opened> opened{};
  Status status = Fail(Code::kInternal, "the child died");
};

Status OpenAll(Job& job) {
  // The host's mounts of this moment: our own namespace is a copy from when we started.
  if (::setns(job.host->host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  // What is made belongs to the store's range from birth: a chown afterwards, by name or
  // descriptor, could be made to hit something else.
  ATOLL_TRY(ActAs(kStoreIdBase));
  for (const Volume& volume : job.volumes) {
    ATOLL_ASSIGN(Opened opened, OpenSource(*job.host, volume, job.clone));
    job.opened.push_back(std::move(opened));
  }
  return {};
}

// Shares the table of descriptors: what it leaves open is the parent's.
void RunJob(void* argument) {
  auto* job = static_cast<Job*>(argument);
  job->status = OpenAll(*job);
  ::_exit(0);
}

Result<std::vector<Opened>> OpenInHost(const Host& host, std::span<const Volume> volumes,
                                       bool clone) {
  Job job{.host = &host, .volumes = volumes, .clone = clone};
  job.opened.reserve(volumes.size());
  // Its exit is reaped with everybody's (Server::OnSignal).
  ATOLL_TRY(Vfork(CLONE_FILES, -1, RunJob, &job));
  ATOLL_TRY(std::move(job.status));
  return std::move(job.opened);
}

bool Reserved(uid_t id) {
  return id >= kStoreIdBase && id - kStoreIdBase < kIdsPerSandbox;
}

// Lines of a uid_map or gid_map: on disk, in the slot, how many.
std::string MapOf(bool named, uid_t owner, uid_t base) {
  const auto line = [](uid_t disk, uid_t slot, uint32_t count) {
    return std::to_string(disk) + " " + std::to_string(slot) + " " + std::to_string(count) + "\n";
  };
  if (named || Reserved(owner)) return line(kStoreIdBase, base, kIdsPerSandbox);
  return line(owner, base, 1) + line(kStoreIdBase + 1, base + 1, kIdsPerSandbox - 1);
}

struct Maps {
  std::string uids, gids;
  bool operator==(const Maps&) const = default;
};

Maps MapsOf(const Volume& volume, const struct stat& info, uid_t base) {
  Maps maps{MapOf(Named(volume), info.st_uid, base), MapOf(Named(volume), info.st_gid, base)};
  if (!Named(volume) && info.st_gid == 0 && !volume.read_only) {
    // No sandbox hands out root's group. But in a directory with an id that has no counterpart
    // nobody may write: it gets one that no process has.
    maps.gids = MapOf(true, 0, base) + "0 " + std::to_string(kStoreIdBase) + " 1\n";
  }
  return maps;
}

}  // namespace

const std::string* AllowedAbove(const std::vector<std::string>& allowed, const std::string& path) {
  const std::string* best = nullptr;
  for (const std::string& prefix : allowed) {
    if (Within(path, prefix) && (best == nullptr || prefix.size() > best->size())) best = &prefix;
  }
  return best;
}

Status CheckVolumeSource(const Host& host, const Volume& volume) {
  ATOLL_TRY(OpenInHost(host, {&volume, 1}, false));
  return {};
}

Result<std::vector<VolumeSource>> OpenVolumeSources(const Host& host,
                                                    const std::vector<Volume>& volumes,
                                                    uid_t base) {
  ATOLL_ASSIGN(std::vector<Opened> opened, OpenInHost(host, volumes, true));
  std::vector<VolumeSource> sources;
  // Most often one for all.
  Maps maps;
  UniqueFd user_namespace;
  for (size_t i = 0; i < volumes.size(); ++i) {
    const Volume& volume = volumes[i];
    if (const Maps wanted = MapsOf(volume, opened[i].info, base); wanted != maps) {
      ATOLL_ASSIGN(user_namespace, MakeUserNamespace(base, wanted.uids, wanted.gids));
      maps = wanted;
    }
    const uint64_t attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (volume.read_only ? uint64_t{MOUNT_ATTR_RDONLY} : 0);
    Status mapped = SetMountAttributes(opened[i].mount.get(), attributes, user_namespace.get(),
                                       true, MS_PRIVATE);
    if (!mapped) {
      return Fail(std::move(mapped).error().Wrap(
          Name(volume) + ": its file system, or one mounted beneath it, cannot be id-mapped"));
    }
    sources.push_back({std::move(opened[i].mount), S_ISDIR(opened[i].info.st_mode)});
  }
  return sources;
}

}  // namespace atl::spawner
