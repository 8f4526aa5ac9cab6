// The packet header of virtio's socket device (virtio 1.2, 5.10.6).
#pragma once

#include <linux/virtio_vsock.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace atl::vsock {

using Header = virtio_vsock_hdr;
inline constexpr size_t kHeaderSize = sizeof(Header);
static_assert(kHeaderSize == 44 && std::is_trivially_copyable_v<Header>);

// The ends of a direction in a SHUTDOWN packet, from its sender's side.
inline constexpr uint32_t kEndReceive = VIRTIO_VSOCK_SHUTDOWN_RCV;
inline constexpr uint32_t kEndSend = VIRTIO_VSOCK_SHUTDOWN_SEND;
inline constexpr uint32_t kEndBoth = kEndReceive | kEndSend;

// Copies the header out of a buffer of at least kHeaderSize bytes.
inline Header ReadHeader(std::span<const iovec> parts) {
  char bytes[kHeaderSize];
  size_t done = 0;
  for (const iovec& part : parts) {
    const size_t n = std::min(part.iov_len, kHeaderSize - done);
    std::memcpy(bytes + done, part.iov_base, n);
    done += n;
  }
  Header header;
  std::memcpy(&header, bytes, kHeaderSize);
  // The guest may change the bytes now; the compiler must not read them again.
  __asm__ volatile("" : "+m"(header));
  return header;
}

// Copies the header into a buffer of at least kHeaderSize bytes.
inline void WriteHeader(std::span<const iovec> parts, const Header& header) {
  size_t done = 0;
  for (const iovec& part : parts) {
    const size_t n = std::min(part.iov_len, kHeaderSize - done);
    std::memcpy(part.iov_base, reinterpret_cast<const char*>(&header) + done, n);
    done += n;
  }
}

// Appends the parts of `from` behind its first `skip` bytes to `to`, `size` bytes at most. Returns
// the number of bytes.
template <typename Parts>
size_t AppendSlice(std::span<const iovec> from, size_t skip, size_t size, Parts& to) {
  size_t done = 0;
  for (const iovec& part : from) {
    const size_t skipped = std::min(part.iov_len, skip);
    skip -= skipped;
    const size_t n = std::min(part.iov_len - skipped, size - done);
    if (n > 0) to.push_back({static_cast<char*>(part.iov_base) + skipped, n});
    done += n;
  }
  return done;
}

}  // namespace atl::vsock
