#include "runtime/guard/vsock/virtqueue.h"

#include <sys/eventfd.h>

#include <bit>
#include <string>

namespace atl::vsock {
namespace {

static_assert(std::endian::native == std::endian::little, "virtio 1 is little-endian");

// The layout is the one of virtio 1.2, 2.7. linux/virtio_ring.h is no C++.
struct Descriptor {
  uint64_t address;
  uint32_t size;
  uint16_t flags;
  uint16_t next;
};
struct Used {
  uint32_t head;
  uint32_t written;
};
static_assert(sizeof(Descriptor) == 16 && sizeof(Used) == 8);
constexpr uint16_t kNext = 1, kWrite = 2;  // flags of a descriptor
constexpr uint16_t kNoInterrupt = 1;       // a flag of the available ring
constexpr uint16_t kNoNotify = 1;          // a flag of the used ring
constexpr size_t kRingHead = 4;            // flags and index, of both rings
constexpr size_t kIndex = 2;               // the index's offset

template <typename T>
T Load(const std::byte* at, int order = __ATOMIC_RELAXED) {
  return __atomic_load_n(reinterpret_cast<const T*>(at), order);
}

template <typename T>
void Store(std::byte* at, T value, int order = __ATOMIC_RELAXED) {
  __atomic_store_n(reinterpret_cast<T*>(at), value, order);
}

tl::unexpected<Error> RingBroken(const char* why) {
  return Fail(Code::kInvalidArgument, std::string("virtqueue: ") + why);
}

bool IsAligned(const std::byte* at, size_t to) {
  return reinterpret_cast<uintptr_t>(at) % to == 0;
}

}  // namespace

Status Virtqueue::SetSize(uint32_t size) {
  if (size > kMaxSize || !std::has_single_bit(size)) return RingBroken("the size is wrong");
  size_ = size;
  return {};
}

Status Virtqueue::Start(const GuestMemory& memory) {
  if (size_ == 0) return RingBroken("started without a size");
  descriptors_ = memory.AtMonitor(addresses_.descriptors, sizeof(Descriptor) * size_);
  available_ = memory.AtMonitor(addresses_.available, kRingHead + sizeof(uint16_t) * size_);
  used_ = memory.AtMonitor(addresses_.used, kRingHead + sizeof(Used) * size_);
  if (descriptors_ == nullptr || available_ == nullptr || used_ == nullptr) {
    return RingBroken("a ring is not in the guest's memory");
  }
  if (!IsAligned(descriptors_, 16) || !IsAligned(available_, 2) || !IsAligned(used_, 4)) {
    return RingBroken("a ring is not aligned");
  }
  memory_ = &memory;
  done_ = seen_ = next_;
  unpublished_ = untold_ = false;
  return {};
}

uint16_t Virtqueue::Available() const {
  return Load<uint16_t>(available_ + kIndex, __ATOMIC_ACQUIRE);
}

Status Virtqueue::Append(Chain& chain, uint64_t address, uint32_t size) const {
  if (size == 0) return {};
  std::byte* bytes = memory_->AtGuest(address, size);
  if (bytes == nullptr) return RingBroken("a buffer is not in the guest's memory");
  chain.parts.push_back({.iov_base = bytes, .iov_len = size});
  chain.size += size;
  return {};
}

Result<bool> Virtqueue::Pop(Chain& chain) {
  if (seen_ == next_) {
    seen_ = Available();
    if (seen_ == next_) return false;
  }
  if (static_cast<uint16_t>(seen_ - next_) > size_) return RingBroken("more buffers than places");
  chain.head = Load<uint16_t>(available_ + kRingHead + sizeof(uint16_t) * (next_ % size_));
  chain.parts.clear();
  chain.size = 0;
  uint16_t index = chain.head;
  for (uint32_t links = 0;; ++links) {
    if (index >= size_) return RingBroken("a descriptor beyond the table");
    if (links == size_) return RingBroken("a chain without an end");
    const std::byte* at = descriptors_ + sizeof(Descriptor) * index;
    const auto address = Load<uint64_t>(at + offsetof(Descriptor, address));
    const auto size = Load<uint32_t>(at + offsetof(Descriptor, size));
    const auto flags = Load<uint16_t>(at + offsetof(Descriptor, flags));
    const auto link = Load<uint16_t>(at + offsetof(Descriptor, next));
    if ((flags & ~(kNext | kWrite)) != 0) {
      return RingBroken("a descriptor with a flag that was not agreed upon");
    }
    if (((flags & kWrite) != 0) != (direction_ == Direction::kToGuest)) {
      return RingBroken("a descriptor of the wrong direction");
    }
    ATOLL_TRY(Append(chain, address, size));
    if ((flags & kNext) == 0) break;
    index = link;
  }
  ++next_;
  return true;
}

void Virtqueue::Push(const Chain& chain, uint32_t written) {
  std::byte* at = used_ + kRingHead + sizeof(Used) * (done_ % size_);
  Store<uint32_t>(at + offsetof(Used, head), chain.head);
  Store<uint32_t>(at + offsetof(Used, written), written);
  ++done_;
  unpublished_ = true;
}

void Virtqueue::Publish() {
  if (!std::exchange(unpublished_, false)) return;
  Store<uint16_t>(used_ + kIndex, done_, __ATOMIC_RELEASE);
  untold_ = true;
}

void Virtqueue::Notify() {
  if (!std::exchange(untold_, false) || !call_.valid()) return;
  // The guest publishes its flags and then looks at the used index; here it is the other way round.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if ((Load<uint16_t>(available_) & kNoInterrupt) != 0) return;
  ::eventfd_write(call_.get(), 1);
}

bool Virtqueue::EnableKicks() {
  Store<uint16_t>(used_, 0);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return Available() != next_;
}

void Virtqueue::DisableKicks() {
  Store<uint16_t>(used_, kNoNotify);
}

}  // namespace atl::vsock
