#include "tests/priv/quota_store.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/store/store_image.h"

namespace atl::priv {

bool RunProgram(const std::string& path, std::initializer_list<const char*> arguments) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const char* argument : arguments) argv.push_back(const_cast<char*>(argument));
    argv.push_back(nullptr);
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status == 0;
}

QuotaStore::QuotaStore(const std::string& type, const std::string& data_dir)
    : mount_point_(data_dir + "/store") {
  Mount(type, data_dir);
}

void QuotaStore::Mount(const std::string& type, const std::string& data_dir) {
  const std::string image = data_dir + "/" + type + ".img";
  auto file = sys::Open(image, O_RDWR | O_CREAT | O_EXCL, 0600);
  EXPECT_TRUE(file && ::ftruncate(file->get(), 1 << 30) == 0) << image;
  const bool made = type == "xfs"
                        ? RunProgram("/usr/sbin/mkfs.xfs", {"-q", "-K", image.c_str()})
                        : RunProgram("/usr/sbin/mkfs.ext4", {"-q", "-O", "project,quota", "-E",
                                                             "quotatype=prjquota", image.c_str()});
  EXPECT_TRUE(made) << "mkfs." << type << " (tools/deps guest)";
  auto device = spawner::AttachLoop(file->get());
  ASSERT_TRUE(device) << device.error().message();
  auto mount = spawner::NewMount(type.c_str(), {{"source", device->path}, {"prjquota", ""}}, 0);
  ASSERT_TRUE(mount) << mount.error().message();
  std::filesystem::create_directory(mount_point_);
  auto target = sys::Open(mount_point_, O_PATH | O_DIRECTORY);
  const Status attached = spawner::Attach(mount->get(), target->get(), "store");
  EXPECT_TRUE(attached) << attached.error().message();
}

QuotaStore::~QuotaStore() {
  EXPECT_EQ(::umount2(mount_point_.c_str(), 0), 0)
      << "umount " << mount_point_ << ": " << std::strerror(errno);
}

uint64_t QuotaStore::Free(const std::string& path) {
  struct statvfs info {};
  EXPECT_EQ(::statvfs(path.c_str(), &info), 0) << path;
  return uint64_t{info.f_bfree} * info.f_frsize;
}

}  // namespace atl::priv
