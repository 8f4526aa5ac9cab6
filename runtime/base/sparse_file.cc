#include "runtime/base/sparse_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/sys.h"

namespace atl {

Status WriteWithHoles(int fd, std::string_view bytes) {
  constexpr size_t kBlock = 4096;  // the block of each file system in use, or a part of it
  static constexpr char kZeros[kBlock] = {};
  const off_t begin = ::lseek(fd, 0, SEEK_CUR);
  if (begin < 0) return FailSys("lseek");
  auto at = static_cast<size_t>(begin);
  // Bytes up to the next hole are written in one piece.
  size_t written = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t size = std::min(kBlock - at % kBlock, bytes.size() - i);
    // The part of a block, too: the rest of it may come with the next call.
    if (std::memcmp(bytes.data() + i, kZeros, size) == 0) {
      ATOLL_TRY(sys::WriteAll(fd, bytes.substr(written, i - written)));
      if (::lseek(fd, static_cast<off_t>(size), SEEK_CUR) < 0) return FailSys("lseek");
      written = i + size;
    }
    i += size;
    at += size;
  }
  return sys::WriteAll(fd, bytes.substr(written));
}

Status EndWithHoles(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_CUR);
  if (size < 0) return FailSys("lseek");
  if (::ftruncate(fd, size) != 0) return FailSys("ftruncate");
  return {};
}

}  // namespace atl
