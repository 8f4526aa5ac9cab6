// Fuzzes the socket device of a virtual machine: messages of a hostile monitor, and rings and
// packets of a hostile guest, with host sockets that read, write and close meanwhile. The input is
// a program of steps, one byte each with its operands.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/vsock/virtual_machine.h"

namespace {

using namespace atl;
using namespace atl::vsock;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return bytes_.empty(); }
  std::string_view Take(size_t n) {
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  template <typename T>
  T Take() {
    T value{};
    const std::string_view bytes = Take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

 private:
  std::string_view bytes_;
};

enum Step : uint8_t {
  kMessage,     // request, flags, descriptors, payload
  kRaw,         // bytes to the monitor's socket
  kMemory,      // bytes anywhere in the guest's memory
  kDescriptor,  // an entry of a descriptor table, with a guest's address
  kAvailable,   // a head on an available ring
  kPacket,      // a whole packet, with ports that streams have
  kKick,
  kBuffer,   // a buffer for packets to the guest
  kTake,     // a packet to the guest
  kConnect,  // a connection of the host
  kWrite,    // bytes from a host socket
  kRead,     // bytes to a host socket
  kClose,    // a host socket, or one direction of it
  kRefuse,
  kSteps,
};

void Run(VirtualMachine& vm, Input& in) {
  std::vector<UniqueFd> sockets;
  const auto socket = [&]() -> int {
    if (vm.accepted.valid()) sockets.push_back(std::move(vm.accepted));
    const auto index = in.Take<uint8_t>();
    return sockets.empty() ? -1 : sockets[index % sockets.size()].get();
  };
  for (int steps = 0; !in.empty() && steps < 256 && !vm.ended; ++steps) {
    switch (in.Take<uint8_t>() % kSteps) {
      case kMessage: {
        const auto request = in.Take<uint8_t>();
        const auto flags = in.Take<uint8_t>();
        std::vector<int> descriptors;
        for (int n = in.Take<uint8_t>() % 4; n > 0; --n) {
          const auto kind = in.Take<uint8_t>() % 3;
          descriptors.push_back(kind == 0 ? vm.file() : vm.kick(kind - 1U).get());
        }
        vm.Send(request, in.Take(in.Take<uint8_t>()), descriptors, flags % 16);
        break;
      }
      case kRaw:
        vm.SendBytes(in.Take(in.Take<uint8_t>()));
        break;
      case kMemory: {
        const auto at = in.Take<uint32_t>() % Place::kMemory;
        const std::string_view bytes = in.Take(in.Take<uint8_t>());
        const size_t n = std::min(bytes.size(), Place::kMemory - at);
        if (n > 0) std::memcpy(vm.memory() + at, bytes.data(), n);
        break;
      }
      case kDescriptor: {
        const auto ring = in.Take<uint8_t>() % 2U;
        const auto index = in.Take<uint8_t>() % VirtualMachine::kSize;
        const auto at = in.Take<uint32_t>();
        const auto size = in.Take<uint16_t>();
        const auto flags = in.Take<uint8_t>();
        vm.PutDescriptor(ring, static_cast<uint16_t>(index), Place::kGuest + at % (4 << 20), size,
                         flags % 8, in.Take<uint8_t>());
        break;
      }
      case kAvailable: {
        const auto ring = in.Take<uint8_t>() % 2U;
        vm.MakeAvailable(ring, in.Take<uint8_t>());
        break;
      }
      case kPacket: {
        const auto ports = in.Take<uint8_t>();
        const auto op = in.Take<uint8_t>();
        const uint32_t guest_port = 1000 + ports % 4U;
        const uint32_t host_port = ports < 128 ? 1026 : vm.host_port;
        Header header = vm.HeaderFor(guest_port, host_port, op % 9);
        header.flags = in.Take<uint8_t>() % 4U;
        header.buf_alloc = in.Take<uint16_t>();
        header.fwd_cnt = in.Take<uint16_t>();
        const std::string data(in.Take<uint16_t>() % 4097U, 'x');
        header.len = static_cast<uint32_t>(data.size());
        vm.Put(header, data);
        break;
      }
      case kKick:
        vm.Kick(in.Take<uint8_t>() % 2U);
        break;
      case kBuffer:
        vm.PostBuffer(in.Take<uint16_t>() % 4097U);
        break;
      case kTake:
        vm.Turn();
        break;
      case kConnect: {
        auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
        sockets.push_back(std::move(pair.a));
        vm.device().Connect(1000 + in.Take<uint8_t>() % 4U, std::move(pair.b));
        vm.host_port = 0x40000000 + in.Take<uint8_t>() % 4U;
        vm.Turn();
        break;
      }
      case kWrite: {
        const int to = socket();
        const std::string data(in.Take<uint16_t>(), 'h');
        if (to >= 0) ::send(to, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        vm.Turn();
        break;
      }
      case kRead: {
        const int from = socket();
        char bytes[65536];
        if (from >= 0) (void)!::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
        vm.Turn();
        break;
      }
      case kClose: {
        const int which = socket();
        const auto how = in.Take<uint8_t>() % 4;
        if (which >= 0 && how < 3) ::shutdown(which, how);
        if (which >= 0 && how == 3) {
          std::erase_if(sockets, [which](const UniqueFd& fd) { return fd.get() == which; });
        }
        vm.Turn();
        break;
      }
      case kRefuse:
        vm.refuse = in.Take<uint8_t>() % 2 == 1;
        vm.send_buffer = 1;
        break;
      default:
        break;
    }
  }
  vm.Turn();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  VirtualMachine vm({.streams = 4});
  // A guest begins with a device that is up; a monitor with one that is not.
  if (in.Take<uint8_t>() % 2 == 0) vm.Boot(4);
  Run(vm, in);
  vm.monitor.reset();
  vm.Turn();
  return 0;
}
