// Bytes that wait for a host socket, in the order of arrival: kStreamBuffer at most. Takes memory
// only while there are some.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "runtime/base/result.h"
#include "runtime/guard/vsock/vsock_device.h"

namespace atl::vsock {

class HeldBytes {
 public:
  size_t size() const { return size_; }
  size_t room() const { return kStreamBuffer - size_; }

  // Copies all bytes of `parts`, which must not be more than room().
  void Append(std::span<const iovec> parts) {
    for (const iovec& part : parts) {
      const char* from = static_cast<const char*>(part.iov_base);
      for (size_t left = part.iov_len; left > 0;) {
        ATOLL_CHECK(left <= room());
        if (!bytes_) bytes_ = std::make_unique_for_overwrite<char[]>(kStreamBuffer);
        const size_t end = (begin_ + size_) % kStreamBuffer;
        const size_t n = std::min(left, kStreamBuffer - end);
        std::memcpy(bytes_.get() + end, from, n);
        from += n;
        left -= n;
        size_ += n;
      }
    }
  }

  // All bytes, in one or two parts.
  std::array<iovec, 2> Parts() const {
    const size_t first = std::min(size_, kStreamBuffer - begin_);
    return {{{bytes_.get() + begin_, first}, {bytes_.get(), size_ - first}}};
  }

  // Forgets the first `n` bytes.
  void Drop(size_t n) {
    ATOLL_CHECK(n <= size_);
    begin_ = (begin_ + n) % kStreamBuffer;
    size_ -= n;
    if (size_ > 0) return;
    bytes_.reset();
    begin_ = 0;
  }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t begin_ = 0, size_ = 0;
};

}  // namespace atl::vsock
