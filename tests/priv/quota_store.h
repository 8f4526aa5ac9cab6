// A file system that enforces project quotas, in an image file, mounted at a spawner's store.
#pragma once

#include <cstdint>
#include <string>

namespace atl::priv {

class QuotaStore {
 public:
  // Makes <data_dir>/<type>.img, 1 GiB and sparse, and mounts it on <data_dir>/store. `type` is
  // "xfs" or "ext4".
  QuotaStore(const std::string& type, const std::string& data_dir);
  ~QuotaStore();
  QuotaStore(const QuotaStore&) = delete;
  QuotaStore& operator=(const QuotaStore&) = delete;

  // Returns the free bytes of the file system at `path`.
  static uint64_t Free(const std::string& path);

 private:
  void Mount(const std::string& type, const std::string& data_dir);

  std::string mount_point_;
};

// Runs a program to its end. Returns true if it exited with 0.
bool RunProgram(const std::string& path, std::initializer_list<const char*> arguments);

}  // namespace atl::priv
