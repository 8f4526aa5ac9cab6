// Archives in the "newc" format of cpio, which the kernel unpacks as its first root. Several
// archives behind each other are one (Documentation/driver-api/early-userspace/buffer-format).
//
// Thread rule: a plain object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atl {

class CpioWriter {
 public:
  // Entries belong to root. `name`: without a leading slash; its directory must have been added.
  void AddDirectory(std::string_view name);
  // `mode`: permissions. `bytes`: less than 4 GiB.
  void AddFile(std::string_view name, uint32_t mode, std::string_view bytes);
  // Returns the finished archive, whose size is a multiple of 4.
  std::string Finish();

 private:
  void Add(std::string_view name, uint32_t mode, std::string_view bytes);

  std::string archive_;
  uint32_t next_inode_ = 1;
};

}  // namespace atl
