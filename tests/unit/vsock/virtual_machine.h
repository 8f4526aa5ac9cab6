// A virtual machine as the device sees it: the monitor's messages, the memory it shares, and the
// guest's driver with its rings. Tests make each part lie. Used by the tests and the fuzzer.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guard/vsock/packet.h"
#include "runtime/guard/vsock/vsock_device.h"

namespace atl::vsock {

// Places of everything. Guest addresses and the monitor's differ, so that one is not taken for the
// other.
struct Place {
  static constexpr uint64_t kGuest = 0x10000000, kMonitor = 0x7f0000000000;
  static constexpr size_t kMemory = 2 << 20;
  static constexpr size_t kRings[2] = {0, 0x10000};  // rx, tx
  static constexpr size_t kAvailable = 0x4000, kUsed = 0x8000;
  static constexpr size_t kBuffers[2] = {0x20000, 0xc0000};
  static constexpr size_t kBuffer = 0x1200;  // bytes between two buffers
};

template <typename T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A memory file, sealed as QEMU seals it.
inline UniqueFd MemoryFile(size_t size, bool sealed = true) {
  UniqueFd file(::memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ATOLL_CHECK(::ftruncate(file.get(), static_cast<off_t>(size)) == 0);
  if (sealed) ATOLL_CHECK(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return file;
}

class VirtualMachine {
 public:
  static constexpr uint64_t kCid = 77;
  static constexpr uint16_t kSize = 128;      // places of a ring
  static constexpr uint32_t kRoom = 1 << 20;  // the guest's buf_alloc in packets of Packet

  struct Packet {
    Header header{};
    std::string data;
  };

  explicit VirtualMachine(const VsockDevice::Limits& limits = {})
      : loop_(std::move(*EventLoop::Create())), file_(MemoryFile(Place::kMemory)) {
    void* memory =
        ::mmap(nullptr, Place::kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    ATOLL_CHECK(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);  // the kernel chooses an abstract name
    ATOLL_CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    ATOLL_CHECK(::listen(listener.get(), 1) == 0);
    size = sizeof address;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    auto device = VsockDevice::Start(
        *loop_, std::move(listener), kCid, [this](uint32_t port) { return OnGuest(port); },
        [this](Status why) { ended = std::move(why); }, limits);
    ATOLL_CHECK(device.has_value());
    device_ = std::move(*device);
    monitor = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ATOLL_CHECK(::connect(monitor.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  }
  ~VirtualMachine() { ::munmap(memory_, Place::kMemory); }

  // ---- the monitor

  void Send(uint32_t request, std::string_view payload, const std::vector<int>& descriptors = {},
            uint32_t flags = 1) {
    const uint32_t head[3] = {request, flags, static_cast<uint32_t>(payload.size())};
    SendBytes(Bytes(head) + std::string(payload), descriptors);
  }
  void SendBytes(std::string_view bytes, const std::vector<int>& descriptors = {}) {
    if (!monitor.valid()) return;
    // A connection that the device has closed.
    [[maybe_unused]] const Status sent = sys::SendMessage(monitor.get(), bytes, descriptors);
    Turn();
  }
  // Returns the payload of the reply that has come.
  std::optional<std::string> Reply() {
    Turn();
    char bytes[512];
    const ssize_t n = ::recv(monitor.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 12) return std::nullopt;
    return std::string(bytes + 12, static_cast<size_t>(n) - 12);
  }
  void SetMemory() {
    struct {
      uint32_t regions = 1, padding = 0;
      uint64_t guest = Place::kGuest, size = Place::kMemory, monitor = Place::kMonitor, offset = 0;
    } const table;
    Send(5, Bytes(table), {file_.get()});
  }
  void SetRing(uint32_t ring, uint32_t base = 0) {
    SetRingParts(ring, base);
    Kick(ring);
    Send(18, Pair(ring, 1));
  }
  void SetRingParts(uint32_t ring, uint32_t base = 0, uint32_t size = kSize) {
    Send(8, Pair(ring, size));
    Send(10, Pair(ring, base));
    const uint64_t at = Place::kMonitor + Place::kRings[ring];
    SetRingAddresses(ring, at, at + Place::kUsed, at + Place::kAvailable);
    Send(13, Bytes(uint64_t{ring}), {call_[ring].get()});
    Send(12, Bytes(uint64_t{ring}), {kick_[ring].get()});
  }
  void SetRingAddresses(uint32_t ring, uint64_t descriptors, uint64_t used, uint64_t available) {
    struct {
      uint32_t index, flags = 0;
      uint64_t descriptors, used, available, log = 0;
    } const addresses{
        .index = ring, .descriptors = descriptors, .used = used, .available = available};
    Send(9, Bytes(addresses));
  }
  static std::string Pair(uint32_t a, uint32_t b) { return Bytes(a) + Bytes(b); }
  void Agree() {
    Send(3, {});
    Send(16, Bytes(uint64_t{1 << 3 | 1 << 9}));
    Send(2, Bytes(uint64_t{1} << 32 | uint64_t{1} << 30));
    SetMemory();
  }
  // Brings the device up with `buffers` buffers for packets to the guest.
  void Boot(uint16_t buffers = kSize / 2) {
    Agree();
    SetRing(0);
    SetRing(1);
    for (uint16_t i = 0; i < buffers; ++i) PostBuffer();
    Kick(0);
  }

  // ---- the guest's memory

  template <typename T>
  void Put(size_t at, T value) {
    std::memcpy(memory_ + at, &value, sizeof value);
  }
  template <typename T>
  T Get(size_t at) const {
    T value;
    std::memcpy(&value, memory_ + at, sizeof value);
    return value;
  }
  void PutDescriptor(size_t ring, uint16_t index, uint64_t address, uint32_t size, uint16_t flags,
                     uint16_t next) {
    const size_t at = Place::kRings[ring] + size_t{16} * index;
    Put(at, address);
    Put(at + 8, size);
    Put(at + 12, flags);
    Put(at + 14, next);
  }
  void MakeAvailable(size_t ring, uint16_t head) {
    const size_t at = Place::kRings[ring] + Place::kAvailable;
    Put(at + 4 + size_t{2} * (available_[ring] % kSize), head);
    Put(at + 2, ++available_[ring]);
  }
  uint16_t Used(size_t ring) const { return Get<uint16_t>(Place::kRings[ring] + Place::kUsed + 2); }
  void Kick(size_t ring) {
    ::eventfd_write(kick_[ring].get(), 1);
    Turn();
  }
  // True once for the interrupts since the last call.
  bool Interrupted(size_t ring) {
    eventfd_t count;
    return ::eventfd_read(call_[ring].get(), &count) == 0;
  }

  // ---- the driver

  // Gives the device one more buffer: a header's descriptor and one of `room` bytes.
  void PostBuffer(uint32_t room = 4096) {
    const auto index = static_cast<uint16_t>(posted_++ % (kSize / 2) * 2);
    const uint64_t at = Place::kGuest + Place::kBuffers[0] + index / 2 * Place::kBuffer;
    PutDescriptor(0, index, at, kHeaderSize, 1 | 2, static_cast<uint16_t>(index + 1));
    PutDescriptor(0, static_cast<uint16_t>(index + 1), at + kHeaderSize, room, 2, 0);
    MakeAvailable(0, index);
  }
  Header HeaderFor(uint32_t guest, uint32_t host, uint16_t op) {
    return {.src_cid = kCid,
            .dst_cid = kHostCid,
            .src_port = guest,
            .dst_port = host,
            .type = VIRTIO_VSOCK_TYPE_STREAM,
            .op = op,
            .buf_alloc = kRoom,
            .fwd_cnt = taken_};
  }
  void Give(uint32_t guest, uint32_t host, uint16_t op, std::string_view data = {},
            uint32_t flags = 0) {
    Header header = HeaderFor(guest, host, op);
    header.flags = flags;
    header.len = static_cast<uint32_t>(data.size());
    GivePacket(header, data);
  }
  // Puts a packet on the queue; at most 4 KiB of data.
  void Put(const Header& header, std::string_view data = {}) {
    const auto index = static_cast<uint16_t>(given_++ % (kSize / 2) * 2);
    const size_t at = Place::kBuffers[1] + index / 2 * Place::kBuffer;
    Put(at, header);
    if (!data.empty()) std::memcpy(memory_ + at + kHeaderSize, data.data(), data.size());
    const bool more = !data.empty();
    PutDescriptor(1, index, Place::kGuest + at, kHeaderSize, more ? 1 : 0,
                  static_cast<uint16_t>(index + 1));
    PutDescriptor(1, static_cast<uint16_t>(index + 1), Place::kGuest + at + kHeaderSize,
                  static_cast<uint32_t>(data.size()), 0, 0);
    MakeAvailable(1, index);
  }
  void GivePacket(const Header& header, std::string_view data = {}) {
    Put(header, data);
    Kick(1);
  }
  // Takes the next packet, and posts its buffer again.
  std::optional<Packet> Take(bool post = true) {
    Turn();
    if (Used(0) == seen_) return std::nullopt;
    const size_t at = Place::kRings[0] + Place::kUsed + 4 + size_t{8} * (seen_++ % kSize);
    const auto size = Get<uint32_t>(at + 4);
    const size_t buffer = Place::kBuffers[0] + Get<uint32_t>(at) / 2 * Place::kBuffer;
    Packet packet{.header = Get<Header>(buffer)};
    ATOLL_CHECK(size == kHeaderSize + packet.header.len);
    packet.data.assign(reinterpret_cast<const char*>(memory_ + buffer + kHeaderSize),
                       packet.header.len);
    if (post) PostBuffer();
    if (post) Kick(0);
    return packet;
  }
  // Takes the next packet and returns its operation, 0 if there is none.
  uint16_t TakeOp() {
    const auto packet = Take();
    return packet ? packet->header.op : 0;
  }
  // Takes packets of data until there is no packet, or one of another kind, which is kept in
  // `last`.
  std::string TakeData() {
    std::string data;
    while (auto packet = Take()) {
      last = packet;
      if (packet->header.op != VIRTIO_VSOCK_OP_RW) break;
      data += packet->data;
      taken_ += packet->header.len;
    }
    return data;
  }

  // ---- streams

  // Joins a socket with the guest's `port`, which answers.
  UniqueFd Connect(uint32_t port, uint32_t room = kRoom) {
    auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
    device_->Connect(port, std::move(pair.b));
    const auto request = Take();
    if (!request || request->header.op != VIRTIO_VSOCK_OP_REQUEST) return {};
    host_port = request->header.src_port;
    Header response = HeaderFor(port, host_port, VIRTIO_VSOCK_OP_RESPONSE);
    response.buf_alloc = room;
    GivePacket(response);
    return std::move(pair.a);
  }
  // The guest connects from `guest_port`. Returns the host's end of the stream.
  UniqueFd Accept(uint32_t guest_port, uint32_t port) {
    accepted.reset();
    Give(guest_port, port, VIRTIO_VSOCK_OP_REQUEST);
    if (TakeOp() != VIRTIO_VSOCK_OP_RESPONSE) return {};
    return std::move(accepted);
  }

  void Turn() {
    for (int i = 0; i < 4; ++i) loop_->Turn(0);
  }
  void TurnFor(int64_t us) {
    bool over = false;
    loop_->After(us, [&over] { over = true; });
    while (!over) loop_->Turn(-1);
  }
  VsockDevice& device() { return *device_; }
  void DestroyDevice() { device_.reset(); }
  std::byte* memory() { return memory_; }
  int file() const { return file_.get(); }
  const UniqueFd& kick(size_t ring) const { return kick_[ring]; }

  UniqueFd monitor;
  std::optional<Status> ended;
  uint32_t host_port = 0;          // the one of the last Connect
  std::optional<uint32_t> asked;   // the port of the guest's last connection
  UniqueFd accepted;               // its host's end
  bool refuse = false;             // connections of the guest
  std::optional<Packet> last;      // after TakeData
  std::optional<int> send_buffer;  // bytes that an accepted socket takes, about

 private:
  Result<UniqueFd> OnGuest(uint32_t port) {
    asked = port;
    if (refuse) return Fail(Code::kNotFound, "nobody listens");
    auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
    if (send_buffer) {
      ::setsockopt(pair.b.get(), SOL_SOCKET, SO_SNDBUF, &*send_buffer, sizeof(int));
    }
    accepted = std::move(pair.a);
    return std::move(pair.b);
  }
  static UniqueFd Eventfd() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

  std::unique_ptr<EventLoop> loop_;
  UniqueFd file_;
  std::byte* memory_ = nullptr;
  UniqueFd kick_[3] = {Eventfd(), Eventfd(), Eventfd()};
  UniqueFd call_[3] = {Eventfd(), Eventfd(), Eventfd()};
  uint16_t available_[2] = {0, 0};
  uint32_t posted_ = 0, given_ = 0;
  uint16_t seen_ = 0;
  uint32_t taken_ = 0;  // the guest's fwd_cnt, of its one stream with data
  std::unique_ptr<VsockDevice> device_;
};

}  // namespace atl::vsock
