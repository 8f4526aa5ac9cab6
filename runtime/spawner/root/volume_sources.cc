#include "runtime/spawner/root/volume_sources.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/rules/own_paths.h"
#include "runtime/spawner/slot/slot_mounts.h"

namespace atl::spawner {
namespace {

using wire::Volume;

struct Opened {
  UniqueFd mount;  // a clone, or invalid if none was wanted
  struct stat info {};
};

bool Named(const Volume& volume) {
  return volume.kind == Volume::Kind::kNamed;
}

std::string Name(const Volume& volume) {
  return Named(volume) ? "volume '" + volume.source + "'" : "host path '" + volume.source + "'";
}

// openat2 returns EXDEV for a path that leads out, ELOOP for a magic link (or too many links).
bool LeadsOut(const Error& error) {
  return error.error_number() == EXDEV || error.error_number() == ELOOP;
}

// Turns an error into one of ours: neither the client's mistake nor a refusal, whose codes the
// daemon interprets.
Error AsOurs(const std::string& what, const Error& error) {
  const Code code =
      error.code() == Code::kResourceExhausted ? Code::kResourceExhausted : Code::kInternal;
  return Error(code, what + ": " + error.message(), error.error_number());
}

// Decodes the escapes of mountinfo: "\\040" is a space.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size()) {
      unsigned byte = 0;
      for (const char digit : text.substr(at + 1, 3)) byte = byte * 8 + (digit - '0');
      plain.push_back(static_cast<char>(byte));
      at += 3;
    } else {
      plain.push_back(text[at]);
    }
  }
  return plain;
}

// Only a build makes what is missing, so that a refused request leaves nothing behind.
enum class Missing { kLeave, kMake };

struct Found {
  UniqueFd file;
  std::string
      missing;  // path beneath `file`, which is then a directory; empty: `file` is the source
};

// Opens the part of `path` beneath `top` that exists.
Result<Found> OpenExisting(int top, const std::string& path) {
  for (size_t end = path.size(); end > 0 && end != std::string::npos;
       end = path.rfind('/', end - 1)) {
    auto found = sys::OpenWithin(top, path.substr(0, end), O_PATH);
    if (found) return Found{std::move(*found), path.substr(std::min(end + 1, path.size()))};
    if (found.error().error_number() != ENOENT) return Fail(std::move(found).error());
  }
  ATOLL_ASSIGN(UniqueFd directory, sys::OpenAt(top, ".", O_PATH | O_DIRECTORY));
  return Found{std::move(directory), path};
}

// Refuses our own directories, which hold the API key and everybody's files, and directories above
// them, whatever the operator allows. Call before anything is made.
Status CheckNotOurs(const Host& host, const Found& found, const Volume& volume) {
  ATOLL_ASSIGN(const Overlap overlap, OverlapWithOurs(host.config, found.file.get()));
  // A directory that does not exist yet holds nothing.
  if (overlap == Overlap::kNone || (overlap == Overlap::kHolds && !found.missing.empty())) {
    return {};
  }
  return Fail(Code::kPermissionDenied,
              Name(volume) + " holds Atoll's own files, or lies among them");
}

// Opens `path` beneath `top` as mkdir -p does, each step by the descriptor of the one before. If
// something is missing and is to be left so, returns the part that exists.
Result<Found> OpenOrMake(const Host& host, int top, const std::string& path, const Volume& volume,
                         Missing missing) {
  ATOLL_ASSIGN(Found found, OpenExisting(top, path));
  if (!Named(volume)) ATOLL_TRY(CheckNotOurs(host, found, volume));
  for (std::string& rest = found.missing; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string component = rest.substr(0, end);
    // A directory of a named volume is open to all, like the volume itself, so that a sandbox's
    // user need not be root to write. Two builds may make the same one.
    if (missing == Missing::kMake &&
        ::mkdirat(found.file.get(), component.c_str(), Named(volume) ? 0777 : 0755) != 0 &&
        errno != EEXIST) {
      return FailSys("mkdir " + component);
    }
    // A link that leads nowhere may be where nothing was found.
    auto next = sys::OpenBeneath(found.file.get(), component, O_PATH | O_DIRECTORY);
    if (!next && missing == Missing::kLeave && next.error().error_number() == ENOENT) break;
    if (!next) return Fail(std::move(next).error());
    found.file = std::move(*next);
    rest.erase(0, end + 1);
  }
  return found;
}

Result<Found> OpenHostPath(const Host& host, const Volume& volume, Missing missing) {
  const std::string* allowed = AllowedAbove(host.config.host_paths, volume.source);
  if (allowed == nullptr) {
    return Fail(
        Code::kPermissionDenied,
        Name(volume) +
            " is not beneath a directory that the operator allows: add that to "
            "allowed_host_paths in [storage] (--host-path of the spawner) and restart both");
  }
  // Links above the directory are the operator's. The directory itself must not be one.
  auto top = sys::Open(*allowed, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!top) return Fail(AsOurs("the allowed directory", top.error()));
  const std::string rest =
      volume.source.substr(std::min(allowed->size() + 1, volume.source.size()));
  auto opened = OpenOrMake(host, top->get(), rest, volume, missing);
  if (opened || opened.error().error_number() == 0) return opened;
  if (LeadsOut(opened.error())) {
    return Fail(Code::kPermissionDenied,
                Name(volume) + " leaves the allowed directory " + *allowed + " by a link");
  }
  return Fail(AsOurs(Name(volume), opened.error()));
}

Result<Found> OpenNamed(const Host& host, const Volume& volume) {
  auto opened = sys::Open(host.store.path() + "/" + Store::VolumeDirectory(volume.source),
                          O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!opened && opened.error().error_number() == ENOENT) {
    return Fail(Code::kNotFound, Name(volume) + " does not exist");
  }
  if (!opened) return Fail(std::move(opened).error());
  return Found{std::move(*opened), ""};
}

Result<Found> OpenSubPath(const Host& host, int top, const Volume& volume, Missing missing) {
  auto opened = OpenOrMake(host, top, volume.sub_path, volume, missing);
  if (opened || opened.error().error_number() == 0) return opened;
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
  // New files would take the directory's group.
  if (info.st_gid == 0 && (info.st_mode & S_ISGID) != 0) {
    return Fail(Code::kPermissionDenied,
                Name(volume) + " hands the group root on (set-group-ID): chgrp it first");
  }
  return {};
}

// A recursive copy silently leaves out what is mounted as unbindable.
Status CheckBindable(int file, const Volume& volume) {
  constexpr size_t kMostMounts = 16 << 20;
  ATOLL_ASSIGN(const std::string path, RealPath(file));
  ATOLL_ASSIGN(const std::string mounts,
               sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", kMostMounts));
  std::string_view rest = mounts;
  const auto cut = [](std::string_view* from, char end) {
    const std::string_view word = from->substr(0, from->find(end));
    from->remove_prefix(std::min(word.size() + 1, from->size()));
    return word;
  };
  while (!rest.empty()) {
    // proc(5): id, parent, device, root, mount point, options, optional fields, "-".
    std::string_view line = cut(&rest, '\n');
    std::string_view field;
    for (int i = 0; i < 5; ++i) field = cut(&line, ' ');
    const std::string place = Unescaped(field);
    while (!line.empty() && field != "-" && field != "unbindable") field = cut(&line, ' ');
    if (field != "unbindable" || !Within(place, path)) continue;
    return Fail(Code::kPermissionDenied,
                Name(volume) + ": what is mounted on " + place +
                    " is unbindable, so a sandbox would see what that mount hides: mount "
                    "--make-private it");
  }
  return {};
}

// Runs in the host's mount namespace. Only looks, or opens for a build.
Result<Opened> OpenSource(const Host& host, const Volume& volume, bool build) {
  const Missing missing = build ? Missing::kMake : Missing::kLeave;
  Opened opened;
  ATOLL_ASSIGN(Found found,
               Named(volume) ? OpenNamed(host, volume) : OpenHostPath(host, volume, missing));
  if (found.missing.empty() && !volume.sub_path.empty()) {
    ATOLL_ASSIGN(found, OpenSubPath(host, found.file.get(), volume, missing));
  }
  // The missing part will be made as directories of the reserved range.
  if (!found.missing.empty()) return opened;
  if (::fstat(found.file.get(), &opened.info) != 0) return FailSys("fstat " + Name(volume));
  ATOLL_TRY(CheckFile(volume, opened.info));
  // Clones with the mounts beneath, because a copy without them would show what they hide.
  if (build) {
    if (!Named(volume)) ATOLL_TRY(CheckBindable(found.file.get(), volume));
    ATOLL_ASSIGN(opened.mount, CloneMount(found.file.get(), "", true));
  }
  return opened;
}

// Enters the host's mount namespace for good.
Result<std::vector<Opened>> OpenInHost(const Host& host, std::span<const Volume> volumes,
                                       bool build) {
  // Needs the host's present mounts: our own namespace is a copy from our start.
  if (::setns(host.host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  // Everything is made with the store's ids from the start. A chown afterwards, by name or
  // descriptor, could be led astray.
  ATOLL_TRY(ActAs(kStoreIdBase));
  std::vector<Opened> opened;
  for (const Volume& volume : volumes) {
    if (volume.kind == Volume::Kind::kObjects) {
      opened.emplace_back();
      continue;
    }
    ATOLL_ASSIGN(Opened one, OpenSource(host, volume, build));
    opened.push_back(std::move(one));
  }
  ATOLL_TRY(ActAs(0));
  return opened;
}

bool Reserved(uid_t id) {
  return id >= kStoreIdBase && id - kStoreIdBase < kIdsPerSandbox;
}

// Returns lines of a uid_map or gid_map: id on disk, id in the slot, count.
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
    // No sandbox hands out root's group. But nobody may write in a directory whose group has no
    // counterpart, so the group is mapped to an id that no process has.
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
  if (volume.kind == Volume::Kind::kObjects) {
    return Fail(Code::kInvalidArgument, "a bucket is looked at when it is mounted");
  }
  ATOLL_TRY(OpenInHost(host, {&volume, 1}, false));
  return {};
}

Result<std::vector<VolumeSource>> OpenVolumeSources(const Host& host,
                                                    const std::vector<Volume>& volumes,
                                                    uid_t base) {
  ATOLL_ASSIGN(std::vector<Opened> opened, OpenInHost(host, volumes, true));
  std::vector<VolumeSource> sources;
  // Most often all sources share one namespace.
  Maps maps;
  UniqueFd user_namespace;
  for (size_t i = 0; i < volumes.size(); ++i) {
    const Volume& volume = volumes[i];
    if (volume.kind == Volume::Kind::kObjects) {
      sources.emplace_back();
      continue;
    }
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
