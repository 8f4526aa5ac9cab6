#include "runtime/guard/vsock/vhost_user.h"

#include <fcntl.h>
#include <linux/virtio_config.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::vsock {
namespace {

enum Request : uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kResetOwner = 4,
  kSetMemTable = 5,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kGetVringBase = 11,
  kSetVringKick = 12,
  kSetVringCall = 13,
  kSetVringErr = 14,
  kGetProtocolFeatures = 15,
  kSetProtocolFeatures = 16,
  kSetVringEnable = 18,
  kGetConfig = 24,
  kResetDevice = 34,
};

struct MessageHead {
  uint32_t request, flags, size;
};
struct RingState {
  uint32_t index, value;
};
struct RingAddresses {
  uint32_t index, flags;
  uint64_t descriptors, used, available, log;
};
struct MemoryHead {
  uint32_t regions, padding;
};
struct ConfigHead {
  uint32_t offset, size, flags;
};
static_assert(sizeof(MessageHead) == 12 && sizeof(RingAddresses) == 40);
static_assert(sizeof(GuestMemory::Region) == 32);

constexpr uint32_t kVersion = 1, kIsReply = 1U << 2, kNeedsReply = 1U << 3;
constexpr uint64_t kNoDescriptor = 1U << 8, kIndexMask = 0xff;
constexpr uint64_t kProtocolFeatures = uint64_t{1} << 30;  // a feature of the device
constexpr uint64_t kFeatures = uint64_t{1} << VIRTIO_F_VERSION_1 | kProtocolFeatures;
constexpr uint64_t kReplyAck = 1U << 3, kConfig = 1U << 9;  // features of the protocol
constexpr uint32_t kMaxConfig = 256;
// The longest is the one of the memory's regions, or of the configuration.
constexpr uint32_t kMaxPayload =
    sizeof(MemoryHead) + GuestMemory::kMaxRegions * sizeof(GuestMemory::Region) + kMaxConfig;
constexpr int kMessagesAtOnce = 64;

tl::unexpected<Error> Refused(const char* why) {
  return Fail(Code::kInvalidArgument, std::string("vhost-user: ") + why);
}

template <typename T>
Result<T> Read(std::string_view payload) {
  if (payload.size() != sizeof(T)) return Refused("a message of the wrong size");
  T value;
  std::memcpy(&value, payload.data(), sizeof value);
  return value;
}

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// An eventfd has no file type, like other kernel objects without a path. Pipes, sockets and files,
// which could block or be read by somebody, are refused.
//
// The monitor shares the flags. One that makes the descriptor blocking and its counter full stops
// the guard of its own sandbox, which can be killed still.
Status CheckEventfd(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return FailSys("fstat eventfd");
  if ((facts.st_mode & S_IFMT) != 0) return Refused("a descriptor that is no eventfd");
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
    return FailSys("fcntl eventfd");
  }
  return {};
}

}  // namespace

Status VhostUser::Begin(UniqueFd socket) {
  socket_ = std::move(socket);
  ATOLL_ASSIGN(watch_, loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); }));
  return {};
}

void VhostUser::Close() {
  ended_ = true;
  loop_.Unwatch(std::exchange(watch_, 0));
  socket_.reset();
  descriptors_.clear();
  for (Ring& ring : rings_) {
    loop_.Unwatch(std::exchange(ring.watch, 0));
    ring.queue.Stop();
    ring.queue.SetCall({});
    ring.kick.reset();
  }
  memory_ = {};
}

void VhostUser::OnReadable() {
  Result<bool> more = true;
  for (int i = 0; i < kMessagesAtOnce && more && *more && !ended_; ++i) more = Next();
  if (more || ended_) return;
  loop_.Unwatch(std::exchange(watch_, 0));
  ended_ = true;
  // Next reports the end of the connection as kUnavailable.
  if (more.error().code() == Code::kUnavailable) return device_.OnEnd({});
  device_.OnEnd(Fail(std::move(more).error()));
}

Result<bool> VhostUser::Next() {
  MessageHead head{};
  if (received_.size() >= sizeof head) std::memcpy(&head, received_.data(), sizeof head);
  const size_t whole = sizeof head + head.size;
  if (received_.size() < whole) {
    auto piece = sys::ReceivePiece(socket_.get(), whole - received_.size());
    if (!piece && piece.error().error_number() == EAGAIN) return false;
    if (!piece && piece.error().error_number() == ECONNRESET) {
      return Fail(Code::kUnavailable, "the monitor has gone");
    }
    if (!piece) {
      return Fail(Code::kInvalidArgument, std::move(piece).error().Wrap("vhost-user").message());
    }
    if (piece->bytes.empty()) {
      if (!received_.empty()) return Refused("the connection ended within a message");
      return Fail(Code::kUnavailable, "the monitor has gone");
    }
    received_ += piece->bytes;
    for (UniqueFd& descriptor : piece->fds) descriptors_.push_back(std::move(descriptor));
    if (descriptors_.size() > GuestMemory::kMaxRegions) return Refused("too many descriptors");
    if (received_.size() < sizeof head) return true;
    std::memcpy(&head, received_.data(), sizeof head);
    if (head.size > kMaxPayload) return Refused("a message that is too long");
    if (received_.size() < sizeof head + head.size) return true;
  }
  const std::string message = std::exchange(received_, {});
  const Status handled = Handle({.request = head.request,
                                 .flags = head.flags,
                                 .payload = std::string_view(message).substr(sizeof head)});
  if (!handled) return Fail(handled.error());
  if (!descriptors_.empty()) return Refused("a message with descriptors that it does not need");
  return true;
}

Status VhostUser::Reply(const Message& message, std::string_view payload) {
  const MessageHead head{message.request, kVersion | kIsReply,
                         static_cast<uint32_t>(payload.size())};
  std::string bytes(Bytes(head));
  bytes += payload;
  const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
    return Fail(Code::kUnavailable, "the monitor has gone");
  }
  // The monitor waits for each reply, so there is always room for one.
  if (n != static_cast<ssize_t>(bytes.size())) return Refused("the monitor takes no replies");
  return {};
}

Status VhostUser::Handle(const Message& message) {
  if ((message.flags & ~kNeedsReply) != kVersion) return Refused("a message with unknown flags");
  switch (message.request) {
    case kGetFeatures:
      if (!message.payload.empty()) return Refused("a message of the wrong size");
      return Reply(message, Bytes(kFeatures));
    case kGetProtocolFeatures:
      if (!message.payload.empty()) return Refused("a message of the wrong size");
      return Reply(message, Bytes(kReplyAck | kConfig));
    case kGetConfig:
      return GetConfig(message);
    case kGetVringBase: {
      ATOLL_ASSIGN(const RingState state, Read<RingState>(message.payload));
      if (state.index >= kRings) return Refused("a ring that does not exist");
      Ring& ring = rings_[state.index];
      ATOLL_TRY(StopRing(ring));
      loop_.Unwatch(std::exchange(ring.watch, 0));
      ring.kick.reset();
      return Reply(message, Bytes(RingState{state.index, ring.queue.next()}));
    }
    default:
      ATOLL_TRY(HandleOne(message));
  }
  if ((message.flags & kNeedsReply) == 0 || (protocol_ & kReplyAck) == 0) return {};
  return Reply(message, Bytes(uint64_t{0}));
}

Status VhostUser::HandleOne(const Message& message) {
  switch (message.request) {
    case kSetFeatures: {
      ATOLL_ASSIGN(const uint64_t features, Read<uint64_t>(message.payload));
      return SetFeatures(features);
    }
    case kSetProtocolFeatures: {
      ATOLL_ASSIGN(const uint64_t features, Read<uint64_t>(message.payload));
      if ((features & ~(kReplyAck | kConfig)) != 0) return Refused("a feature that is not offered");
      protocol_ = features;
      return {};
    }
    case kSetOwner:
      return {};
    case kResetOwner:
    case kResetDevice:
      ATOLL_TRY(StopAll());
      features_ = 0;
      device_.OnRestart();
      return {};
    case kSetMemTable:
      return SetMemory(message.payload);
    default:
      return HandleRing(message);
  }
}

Status VhostUser::SetFeatures(uint64_t features) {
  if ((features & ~kFeatures) != 0) return Refused("a feature that is not offered");
  if ((features & kFeatures & ~kProtocolFeatures) == 0) {
    return Refused("the driver is older than virtio 1");
  }
  features_ = features;
  return {};
}

Status VhostUser::SetMemory(std::string_view payload) {
  MemoryHead head{};
  if (payload.size() < sizeof head) return Refused("a message of the wrong size");
  std::memcpy(&head, payload.data(), sizeof head);
  payload.remove_prefix(sizeof head);
  if (head.regions > GuestMemory::kMaxRegions ||
      payload.size() != head.regions * sizeof(GuestMemory::Region)) {
    return Refused("a message of the wrong size");
  }
  std::vector<GuestMemory::Region> regions(head.regions);
  if (!regions.empty()) std::memcpy(regions.data(), payload.data(), payload.size());
  ATOLL_ASSIGN(GuestMemory memory, GuestMemory::Map(regions, descriptors_));
  descriptors_.clear();
  memory_ = std::move(memory);
  // Queues that run find their rings again.
  for (Ring& ring : rings_) {
    if (ring.queue.running()) ATOLL_TRY(ring.queue.Start(memory_));
  }
  return {};
}

Status VhostUser::GetConfig(const Message& message) {
  ConfigHead head{};
  if (message.payload.size() < sizeof head) return Refused("a message of the wrong size");
  std::memcpy(&head, message.payload.data(), sizeof head);
  if (head.size > kMaxConfig || message.payload.size() != sizeof head + head.size) {
    return Refused("a message of the wrong size");
  }
  // An empty reply is an error's.
  if (head.offset > config_.size() || head.size > config_.size() - head.offset) {
    return Reply(message, {});
  }
  return Reply(message, std::string(Bytes(head)) + config_.substr(head.offset, head.size));
}

Result<VhostUser::Ring*> VhostUser::RingOf(std::string_view payload, UniqueFd& descriptor) {
  ATOLL_ASSIGN(const uint64_t value, Read<uint64_t>(payload));
  if ((value & ~(kIndexMask | kNoDescriptor)) != 0 || (value & kIndexMask) >= kRings) {
    return Refused("a ring that does not exist");
  }
  if (descriptors_.size() != ((value & kNoDescriptor) != 0 ? 0U : 1U)) {
    return Refused("a message without its descriptor");
  }
  if (!descriptors_.empty()) {
    descriptor = std::move(descriptors_.front());
    descriptors_.clear();
    ATOLL_TRY(CheckEventfd(descriptor.get()));
  }
  return &rings_[value & kIndexMask];
}

Status VhostUser::HandleRing(const Message& message) {
  const auto stopped = [this](uint32_t index) -> Result<Ring*> {
    if (index >= kRings) return Refused("a ring that does not exist");
    if (rings_[index].queue.running()) return Refused("a ring is changed while it runs");
    return &rings_[index];
  };
  switch (message.request) {
    case kSetVringNum: {
      ATOLL_ASSIGN(const RingState state, Read<RingState>(message.payload));
      ATOLL_ASSIGN(Ring* const ring, stopped(state.index));
      return ring->queue.SetSize(state.value);
    }
    case kSetVringAddr: {
      ATOLL_ASSIGN(const RingAddresses addresses, Read<RingAddresses>(message.payload));
      ATOLL_ASSIGN(Ring* const ring, stopped(addresses.index));
      if (addresses.flags != 0) return Refused("a log that is not offered");
      ring->queue.SetAddresses({.descriptors = addresses.descriptors,
                                .available = addresses.available,
                                .used = addresses.used});
      return {};
    }
    case kSetVringBase: {
      ATOLL_ASSIGN(const RingState state, Read<RingState>(message.payload));
      ATOLL_ASSIGN(Ring* const ring, stopped(state.index));
      if (state.value > UINT16_MAX) return Refused("a wrong index");
      // A driver that goes on does so where its queue stopped.
      if (ring->queue.next() != state.value) device_.OnRestart();
      ring->queue.SetNext(static_cast<uint16_t>(state.value));
      return {};
    }
    case kSetVringEnable: {
      ATOLL_ASSIGN(const RingState state, Read<RingState>(message.payload));
      if (state.index >= kRings || state.value > 1) return Refused("a ring that does not exist");
      Ring& ring = rings_[state.index];
      ring.enabled = state.value == 1;
      return ring.enabled ? StartIfReady(ring) : StopRing(ring);
    }
    case kSetVringKick: {
      UniqueFd kick;
      ATOLL_ASSIGN(Ring* const ring, RingOf(message.payload, kick));
      return SetKick(*ring, std::move(kick));
    }
    case kSetVringCall: {
      UniqueFd call;
      ATOLL_ASSIGN(Ring* const ring, RingOf(message.payload, call));
      ring->queue.SetCall(std::move(call));
      return {};
    }
    case kSetVringErr: {
      UniqueFd unused;
      ATOLL_TRY(RingOf(message.payload, unused));
      return {};
    }
    default:
      return Refused("an unknown message");
  }
}

Status VhostUser::SetKick(Ring& ring, UniqueFd kick) {
  if (!kick.valid()) return Refused("a ring without kicks");
  loop_.Unwatch(std::exchange(ring.watch, 0));
  // Edge-triggered, so a kick is heard without a read, which the monitor could make block.
  ATOLL_ASSIGN(ring.watch, loop_.Watch(kick.get(), EPOLLIN | EPOLLET, [this, &ring](uint32_t) {
    if (ring.queue.running()) device_.OnKick();
  }));
  ring.kick = std::move(kick);
  return StartIfReady(ring);
}

Status VhostUser::StartIfReady(Ring& ring) {
  const bool enabled = ring.enabled || (features_ & kProtocolFeatures) == 0;
  if (!enabled || !ring.kick.valid() || ring.queue.running()) return {};
  ATOLL_TRY(ring.queue.Start(memory_));
  device_.OnKick();
  return {};
}

Status VhostUser::StopRing(Ring& ring) {
  if (!ring.queue.running()) return {};
  if (&ring.queue == &from_guest()) ATOLL_TRY(device_.OnStop());
  ring.queue.Stop();
  return {};
}

Status VhostUser::StopAll() {
  for (Ring& ring : rings_) {
    ATOLL_TRY(StopRing(ring));
    loop_.Unwatch(std::exchange(ring.watch, 0));
    ring.kick.reset();
    ring.enabled = false;
  }
  return {};
}

}  // namespace atl::vsock
