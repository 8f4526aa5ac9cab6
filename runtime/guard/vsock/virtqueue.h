// A split virtqueue (virtio 1.2, 2.7), from the device's end. Buffers are taken and given back
// within one call of the loop, never kept, so memory and rings may change between calls.
//
// The rings are shared with a hostile guest: each index and descriptor is read once and checked.
//
// Thread rule: the loop's.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guard/vsock/guest_memory.h"

namespace atl::vsock {

class Virtqueue {
 public:
  enum class Direction { kFromGuest, kToGuest };
  static constexpr uint32_t kMaxSize = 1024;  // a chain is then no longer than IOV_MAX

  // One buffer: a chain of descriptors, all of the queue's direction.
  struct Chain {
    uint16_t head = 0;
    std::vector<iovec> parts;  // parts of the guest's memory
    size_t size = 0;           // bytes of all parts
  };
  // Addresses of the rings in the monitor's address space.
  struct Addresses {
    uint64_t descriptors = 0, available = 0, used = 0;
  };

  explicit Virtqueue(Direction direction) : direction_(direction) {}
  Virtqueue(const Virtqueue&) = delete;
  Virtqueue& operator=(const Virtqueue&) = delete;

  // Set-up, while the queue does not run. A size is a power of two.
  Status SetSize(uint32_t size);
  void SetAddresses(const Addresses& addresses) { addresses_ = addresses; }
  void SetNext(uint16_t next) { next_ = next; }
  void SetCall(UniqueFd eventfd) { call_ = std::move(eventfd); }

  // Finds the rings in `memory`, which is borrowed until Stop or the next Start.
  Status Start(const GuestMemory& memory);
  void Stop() { memory_ = nullptr; }
  bool running() const { return memory_ != nullptr; }
  uint32_t size() const { return size_; }
  // The index of the next buffer in the available ring, and in the used ring between two calls.
  uint16_t next() const { return next_; }

  // Takes the next buffer. False: there is none. An error: the guest broke the ring.
  Result<bool> Pop(Chain& chain);
  // Puts the last `count` buffers back that were popped and not pushed.
  void Unpop(uint16_t count) { next_ = static_cast<uint16_t>(next_ - count); }
  // Gives a buffer back with `written` bytes in it. The guest sees it after Publish.
  void Push(const Chain& chain, uint32_t written);
  void Publish();
  // Interrupts the guest if it was given buffers since the last call and wants to know.
  void Notify();

  // Asks the guest to tell of new buffers. Returns true if there is one already.
  bool EnableKicks();
  void DisableKicks();

 private:
  Status Append(Chain& chain, uint64_t address, uint32_t size) const;
  uint16_t Available() const;

  const Direction direction_;
  uint32_t size_ = 0;
  Addresses addresses_;
  const GuestMemory* memory_ = nullptr;
  std::byte* descriptors_ = nullptr;
  std::byte* available_ = nullptr;
  std::byte* used_ = nullptr;
  uint16_t next_ = 0;  // index in the available ring
  uint16_t done_ = 0;  // index in the used ring
  uint16_t seen_ = 0;  // the available ring has buffers up to here
  bool unpublished_ = false;
  bool untold_ = false;
  UniqueFd call_;
};

}  // namespace atl::vsock
