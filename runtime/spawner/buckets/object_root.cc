#include "runtime/spawner/buckets/object_root.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

constexpr char kAuthorities[] = "/etc/ssl/certs/ca-certificates.crt";

class Root {
 public:
  explicit Root(int fd) : fd_(fd) {}

  Status Directory(const char* path, mode_t mode = 0755) const {
    if (::mkdirat(fd_, path, mode) != 0) return FailSys(std::string("mkdir ") + path);
    return {};
  }
  Status File(const char* path, const std::string& text, mode_t mode, uid_t owner) const {
    ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(fd_, path, O_WRONLY | O_CREAT | O_EXCL, mode));
    ATOLL_TRY(sys::WriteAll(file.get(), text));
    if (::fchown(file.get(), owner, owner) != 0) return FailSys(std::string("chown ") + path);
    return {};
  }
  Status Link(const char* target, const char* path) const {
    if (::symlinkat(target, fd_, path) != 0) return FailSys(std::string("symlink ") + path);
    return {};
  }
  Status Device(const char* path, unsigned major, unsigned minor) const {
    if (::mknodat(fd_, path, S_IFCHR | 0666, makedev(major, minor)) != 0 ||
        ::fchmodat(fd_, path, 0666, 0) != 0) {  // whatever the umask
      return FailSys(std::string("mknod ") + path);
    }
    return {};
  }
  // Shows the host's `from`, read-only, with the mounts beneath it.
  Status Show(const std::string& from, const char* path) const {
    ATOLL_ASSIGN(const UniqueFd mount, CloneMount(AT_FDCWD, from.c_str(), true));
    ATOLL_TRY(SetMountAttributes(mount.get(),
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, true,
                                 MS_PRIVATE));
    ATOLL_ASSIGN(const UniqueFd target, sys::OpenAt(fd_, path, O_PATH));
    return Attach(mount.get(), target.get(), path);
  }
  Status ShowFile(const std::string& from, const char* path) const {
    ATOLL_TRY(File(path, "", 0644, 0));
    return Show(from, path);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status ShowPrograms(const Root& root, const Host& host) {
  for (const char* path : {"usr", "usr/bin", "usr/lib"}) ATOLL_TRY(root.Directory(path));
  ATOLL_TRY(root.Show("/usr/lib", "usr/lib"));
  if (::access("/usr/lib64", F_OK) == 0) {
    ATOLL_TRY(root.Directory("usr/lib64"));
    ATOLL_TRY(root.Show("/usr/lib64", "usr/lib64"));
  }
  ATOLL_TRY(root.Link("usr/bin", "bin"));
  ATOLL_TRY(root.Link("usr/lib", "lib"));
  ATOLL_TRY(root.Link("usr/lib64", "lib64"));
  ATOLL_TRY(root.ShowFile(kObjectServer, "usr/bin/s3fs"));
  // There is no shell, and no other executable than this one.
  ATOLL_TRY(root.ShowFile(host.config.objects, "usr/bin/fusermount"));
  return root.Link("fusermount", "usr/bin/fusermount3");
}

Status WriteServerEtc(const Root& root, const ObjectServerSpec& spec) {
  for (const char* path : {"etc", "etc/ssl", "etc/ssl/certs"}) ATOLL_TRY(root.Directory(path));
  ATOLL_TRY(root.File(kObjectPasswords + 1,
                      spec.credentials.key + ":" + spec.credentials.secret + "\n", 0600,
                      spec.user));
  // The relay listens on every address.
  ATOLL_TRY(root.File("etc/hosts",
                      "127.0.0.1 localhost\n127.0.0.1 " + spec.store.host + "\n127.0.0.1 " +
                          spec.bucket + "." + spec.store.host + "\n",
                      0644, 0));
  ATOLL_TRY(root.File("etc/nsswitch.conf", "hosts: files\npasswd: files\ngroup: files\n", 0644, 0));
  // Media types by file ending, for objects that are read in a browser.
  if (::access("/etc/mime.types", R_OK) == 0) {
    ATOLL_TRY(root.ShowFile("/etc/mime.types", "etc/mime.types"));
  }
  const std::string authorities = spec.store.ca.empty() ? kAuthorities : spec.store.ca;
  if (spec.store.tls) ATOLL_TRY(root.ShowFile(authorities, kAuthorities + 1));
  return {};
}

Status MakeDevices(const Root& root) {
  ATOLL_TRY(root.Directory("dev"));
  // libfuse opens the device and tries to mount, which it may not, before it looks for the helper.
  // Any device that opens will do, because s3fs inherits the real one open, and cannot get another.
  ATOLL_TRY(root.Device("dev/fuse", 1, 3));
  ATOLL_TRY(root.Device("dev/null", 1, 3));
  return root.Device("dev/urandom", 1, 9);
}

Status MakeScratch(const Root& root, const ObjectServerSpec& spec) {
  ATOLL_TRY(root.Directory(kObjectMount + 1, 0700));
  if (::fchownat(root.fd(), kObjectMount + 1, spec.user, spec.user, 0) != 0) {
    return FailSys("chown mnt");
  }
  ATOLL_TRY(root.Directory(kObjectScratch + 1));
  ATOLL_ASSIGN(const UniqueFd scratch, CloneMount(AT_FDCWD, spec.scratch.c_str(), false));
  ATOLL_TRY(SetMountAttributes(scratch.get(), kNoSuidDevExec, -1, false, MS_PRIVATE));
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenAt(root.fd(), kObjectScratch + 1, O_PATH));
  return Attach(scratch.get(), target.get(), kObjectScratch);
}

}  // namespace

Status MakeObjectRoot(const Host& host, const ObjectServerSpec& spec) {
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) != 0) return FailSys("unshare");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("mount / private");
  }
  ::umask(0);
  ATOLL_ASSIGN(const UniqueFd mount,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "1m"}}, MOUNT_ATTR_NOSUID));
  ATOLL_ASSIGN(const UniqueFd staging, sys::Open(host.staging, O_PATH | O_DIRECTORY));
  ATOLL_TRY(Attach(mount.get(), staging.get(), host.staging.c_str()));
  ATOLL_ASSIGN(const UniqueFd top, sys::Open(host.staging, O_RDONLY | O_DIRECTORY));
  const Root root(top.get());
  ATOLL_TRY(ShowPrograms(root, host));
  ATOLL_TRY(WriteServerEtc(root, spec));
  ATOLL_TRY(MakeDevices(root));
  ATOLL_TRY(MakeScratch(root, spec));
  ATOLL_TRY(SetMountAttributes(top.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, -1, false));
  // Moves the old root over the new one and takes it off (pivot_root(2), "pivot_root(".", ".")").
  if (::fchdir(top.get()) != 0) return FailSys("fchdir");
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return FailSys("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return FailSys("umount2");
  if (::chdir("/") != 0) return FailSys("chdir");
  ::umask(077);
  return {};
}

}  // namespace atl::spawner
