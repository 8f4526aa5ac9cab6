// Rings that a guest has broken, and monitors that break the protocol. Each ends the device.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/vsock/virtual_machine.h"

namespace atl::vsock {
namespace {

constexpr uint16_t kNext = 1, kWrite = 2, kIndirect = 4;
constexpr size_t kTx = 1, kRx = 0;
constexpr uint64_t kEnd = Place::kGuest + Place::kMemory;

// Expects that `vm` has ended with an error that contains `word`, and that its host sockets are
// closed.
void ExpectEnded(VirtualMachine& vm, std::string_view word) {
  vm.Turn();
  ASSERT_TRUE(vm.ended) << word;
  ASSERT_FALSE(*vm.ended) << word;
  EXPECT_NE(vm.ended->error().message().find(word), std::string::npos)
      << vm.ended->error().message();
  char byte;
  EXPECT_LE(::recv(vm.monitor.get(), &byte, 1, MSG_DONTWAIT), 0);
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  vm.device().Connect(1024, std::move(pair.b));
  EXPECT_EQ(::recv(pair.a.get(), &byte, 1, MSG_DONTWAIT), 0);
}

struct BrokenRing {
  const char* word;
  std::function<void(VirtualMachine&)> breaks;
};

TEST(HostileGuest, EndsTheDevice) {
  const auto descriptor = [](uint64_t address, uint32_t size, uint16_t flags = 0,
                             uint16_t next = 0) {
    return [=](VirtualMachine& vm) {
      vm.PutDescriptor(kTx, 0, address, size, flags, next);
      vm.MakeAvailable(kTx, 0);
    };
  };
  const std::vector<BrokenRing> cases = {
      {"beyond the table", [](VirtualMachine& vm) { vm.MakeAvailable(kTx, 128); }},
      {"beyond the table", [](VirtualMachine& vm) { vm.MakeAvailable(kTx, 0xffff); }},
      {"beyond the table", descriptor(Place::kGuest, 44, kNext, 128)},
      {"without an end", descriptor(Place::kGuest, 44, kNext, 0)},
      {"without an end",
       [](VirtualMachine& vm) {
         vm.PutDescriptor(kTx, 0, Place::kGuest, 1, kNext, 1);
         vm.PutDescriptor(kTx, 1, Place::kGuest, 1, kNext, 0);
         vm.MakeAvailable(kTx, 0);
       }},
      {"not agreed upon", descriptor(Place::kGuest, 32, kIndirect)},
      {"not agreed upon", descriptor(Place::kGuest, 44, 0x8000)},
      {"wrong direction", descriptor(Place::kGuest, 44, kWrite)},
      {"not in the guest's memory", descriptor(0, 44)},
      {"not in the guest's memory", descriptor(Place::kGuest - 1, 44)},
      {"not in the guest's memory", descriptor(kEnd - 43, 44)},
      {"not in the guest's memory", descriptor(kEnd, 44)},
      {"not in the guest's memory", descriptor(Place::kMonitor, 44)},
      {"not in the guest's memory", descriptor(Place::kGuest, 0xffffffff)},
      {"not in the guest's memory", descriptor(std::numeric_limits<uint64_t>::max(), 44)},
      {"not in the guest's memory", descriptor(std::numeric_limits<uint64_t>::max() - 43, 44)},
      {"without a header", descriptor(Place::kGuest, 43)},
      {"without a header", descriptor(Place::kGuest, 0)},
      {"more buffers than places",
       [](VirtualMachine& vm) {
         vm.Put(Place::kRings[kTx] + Place::kAvailable + 2, uint16_t{129});
       }},
      {"more buffers than places",
       [](VirtualMachine& vm) {
         vm.Put(Place::kRings[kTx] + Place::kAvailable + 2, uint16_t{0xffff});
       }},
      {"shorter than it says",
       [](VirtualMachine& vm) {
         Header header = vm.HeaderFor(1000, 1026, VIRTIO_VSOCK_OP_RW);
         header.len = 5;
         vm.Put(header, "four");
       }},
      {"shorter than it says",
       [](VirtualMachine& vm) {
         Header header = vm.HeaderFor(1000, 1026, VIRTIO_VSOCK_OP_RW);
         header.len = 0xffffffff;
         vm.Put(header, "four");
       }},
      {"wrong direction",
       [](VirtualMachine& vm) {
         vm.PutDescriptor(kRx, 0, Place::kGuest, 4096, 0, 0);
         vm.Put(vm.HeaderFor(1, 22, VIRTIO_VSOCK_OP_RW));  // answered with a reset
       }},
      {"without room",
       [](VirtualMachine& vm) {
         vm.PutDescriptor(kRx, 0, Place::kGuest, 44, kWrite, 0);
         vm.Put(vm.HeaderFor(1, 22, VIRTIO_VSOCK_OP_RW));
       }},
  };
  for (const BrokenRing& broken : cases) {
    SCOPED_TRACE(broken.word);
    VirtualMachine vm;
    vm.Boot();
    broken.breaks(vm);
    vm.Kick(kTx);
    ExpectEnded(vm, broken.word);
  }
}

TEST(HostileGuest, AnEndedDeviceClosesItsStreams) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1027);
  vm.MakeAvailable(kTx, 999);
  vm.Kick(kTx);
  ExpectEnded(vm, "beyond the table");
  char byte;
  EXPECT_EQ(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0);
}

TEST(HostileGuest, HeadersInPiecesAreHeaders) {
  VirtualMachine vm;
  vm.Boot();
  const Header header = vm.HeaderFor(1000, 1026, VIRTIO_VSOCK_OP_REQUEST);
  vm.Put(Place::kBuffers[kTx], header);
  const uint64_t at = Place::kGuest + Place::kBuffers[kTx];
  for (uint16_t i = 0; i < 44; ++i) {
    vm.PutDescriptor(kTx, i, at + i, 1, i < 43 ? kNext : 0, static_cast<uint16_t>(i + 1));
  }
  vm.MakeAvailable(kTx, 0);
  vm.Kick(kTx);
  EXPECT_EQ(vm.asked, 1026U);
  EXPECT_EQ(vm.TakeOp(), VIRTIO_VSOCK_OP_RESPONSE);
}

TEST(HostileGuest, EndlessKicksWithoutPacketsAreHarmless) {
  VirtualMachine vm;
  vm.Boot();
  for (int i = 0; i < 10'000; ++i) {
    vm.Kick(kTx);
    vm.Kick(kRx);
  }
  EXPECT_FALSE(vm.ended);
  EXPECT_TRUE(vm.Accept(1, 1026).valid());
}

// ---- the monitor

TEST(Monitor, IsToldWhatIsOffered) {
  VirtualMachine vm;
  vm.Send(1, {});
  EXPECT_EQ(vm.Reply(), Bytes(uint64_t{1} << 32 | uint64_t{1} << 30));
  vm.Send(15, {});
  EXPECT_EQ(vm.Reply(), Bytes(uint64_t{1 << 3 | 1 << 9}));
}

TEST(Monitor, ReadsTheGuestsCid) {
  VirtualMachine vm;
  const std::string head = Bytes(uint32_t{0}) + Bytes(uint32_t{8}) + Bytes(uint32_t{0});
  vm.Send(24, head + std::string(8, '\0'));
  EXPECT_EQ(vm.Reply(), head + Bytes(VirtualMachine::kCid));
  vm.Send(24, Bytes(uint32_t{4}) + Bytes(uint32_t{8}) + std::string(12, '\0'));
  EXPECT_EQ(vm.Reply(), "");  // there is nothing
  vm.Send(24, Bytes(uint32_t{0xffffffff}) + Bytes(uint32_t{8}) + std::string(12, '\0'));
  EXPECT_EQ(vm.Reply(), "");
}

TEST(Monitor, IsAnsweredWhenItAsksForIt) {
  VirtualMachine vm;
  vm.Send(3, {}, {}, 1 | 1 << 3);
  EXPECT_FALSE(vm.Reply());  // not agreed upon yet
  vm.Send(16, Bytes(uint64_t{1 << 3}));
  vm.Send(3, {}, {}, 1 | 1 << 3);
  EXPECT_EQ(vm.Reply(), Bytes(uint64_t{0}));
}

TEST(Monitor, MaySendMessagesInPieces) {
  VirtualMachine vm;
  const std::string bytes = Bytes(uint32_t{1}) + Bytes(uint32_t{1}) + Bytes(uint32_t{0});
  for (const char byte : bytes) vm.SendBytes(std::string(1, byte));
  EXPECT_EQ(vm.Reply(), Bytes(uint64_t{1} << 32 | uint64_t{1} << 30));
}

struct BadMessage {
  const char* word;
  std::function<void(VirtualMachine&)> sends;
};

std::string Region(uint64_t guest, uint64_t size, uint64_t monitor, uint64_t offset = 0) {
  return Bytes(guest) + Bytes(size) + Bytes(monitor) + Bytes(offset);
}

TEST(HostileMonitor, EndsTheDevice) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const auto message = [](uint32_t request, const std::string& payload) {
    return [=](VirtualMachine& vm) { vm.Send(request, payload); };
  };
  const auto memory = [](const std::vector<std::string>& regions, size_t file_size = 1 << 20) {
    return [=](VirtualMachine& vm) {
      const UniqueFd file = MemoryFile(file_size);
      std::string payload = VirtualMachine::Pair(static_cast<uint32_t>(regions.size()), 0);
      for (const std::string& region : regions) payload += region;
      vm.Send(5, payload, std::vector<int>(regions.size(), file.get()));
    };
  };
  const auto file = [](std::function<UniqueFd()> make) {
    return [make = std::move(make)](VirtualMachine& vm) {
      const UniqueFd made = make();
      vm.Send(5, VirtualMachine::Pair(1, 0) + Region(0, 4096, 0), {made.get()});
    };
  };
  const auto kick = [](std::function<UniqueFd()> make) {
    return [make = std::move(make)](VirtualMachine& vm) {
      const UniqueFd made = make();
      vm.Send(12, Bytes(uint64_t{0}), {made.get()});
    };
  };
  const auto pipe = [] { return std::move(sys::MakePipe()->write); };
  const auto ring = [](uint64_t descriptors, uint64_t used, uint64_t available) {
    return [=](VirtualMachine& vm) {
      vm.SetRingParts(kTx);
      vm.SetRingAddresses(kTx, descriptors, used, available);
      vm.Send(18, VirtualMachine::Pair(kTx, 1));
    };
  };
  constexpr uint64_t kM = Place::kMonitor;
  const std::vector<BadMessage> cases = {
      {"unknown message", message(0, "")},
      {"unknown message", message(6, std::string(16, '\0'))},
      {"unknown message", message(7, "")},
      {"unknown message", message(17, "")},
      {"unknown message", message(25, std::string(20, '\0'))},
      {"unknown message", message(0xffffffff, "")},
      {"wrong size", message(1, "x")},
      {"wrong size", message(2, "1234567")},
      {"wrong size", message(8, "1234567")},
      {"wrong size", message(9, std::string(39, '\0'))},
      {"wrong size", message(24, std::string(11, '\0'))},
      {"wrong size",
       message(24, Bytes(uint32_t{0}) + Bytes(uint32_t{9}) + std::string(12, '\0'))},
      {"too long", [](VirtualMachine& vm) {
         vm.SendBytes(Bytes(uint32_t{2}) + Bytes(uint32_t{1}) + Bytes(uint32_t{0xffffffff}));
       }},
      {"too long", message(2, std::string(600, 'x'))},
      {"unknown flags", [](VirtualMachine& vm) { vm.Send(1, {}, {}, 0); }},
      {"unknown flags", [](VirtualMachine& vm) { vm.Send(1, {}, {}, 2); }},
      {"unknown flags", [](VirtualMachine& vm) { vm.Send(1, {}, {}, 5); }},
      {"within a message",
       [](VirtualMachine& vm) {
         vm.SendBytes("half");
         vm.monitor.reset();
         vm.Turn();
       }},
      {"not offered", message(2, Bytes(uint64_t{1} << 32 | 1))},
      {"not offered", message(2, Bytes(uint64_t{1} << 32 | uint64_t{1} << 28))},
      {"not offered", message(16, Bytes(uint64_t{1 << 1}))},
      {"older than virtio 1", message(2, Bytes(uint64_t{0}))},
      {"wrong size", message(5, VirtualMachine::Pair(9, 0) + std::string(9 * 32, '\0'))},
      {"wrong size", message(5, VirtualMachine::Pair(2, 0) + std::string(32, '\0'))},
      {"number of regions or files", message(5, VirtualMachine::Pair(1, 0) + Region(0, 4096, 0))},
      {"is empty", memory({Region(0, 0, 0)})},
      {"not made of pages", memory({Region(1, 4096, 0)})},
      {"not made of pages", memory({Region(0, 4095, 0)})},
      {"not made of pages", memory({Region(0, 4096, 1)})},
      {"not made of pages", memory({Region(0, 4096, 0, 512)})},
      {"wraps", memory({Region(kMax - 4095, 8192, 0)})},
      {"wraps", memory({Region(0, 8192, kMax - 4095)})},
      {"wraps", memory({Region(0, 8192, 0, kMax - 4095)})},
      {"too large", memory({Region(0, uint64_t{2} << 40, 0)})},
      {"too large", memory({Region(0, kMax - 4095, 0)})},
      {"beyond its file", memory({Region(0, 2 << 20, 0)})},
      {"beyond its file", memory({Region(0, 4096, 0, 1 << 20)})},
      {"overlap", memory({Region(0, 8192, 0), Region(4096, 8192, 1 << 20)})},
      {"overlap", memory({Region(0, 8192, 0), Region(1 << 20, 8192, 4096)})},
      {"sealed", file([] { return MemoryFile(4096, false); })},
      {"sealed", file([] { return *sys::Open("/dev/zero", O_RDWR); })},
      {"sealed", file([] { return std::move(sys::MakePipe()->write); })},
      {"mmap", file([] {
         UniqueFd made = MemoryFile(4096);
         ATOLL_CHECK(::fcntl(made.get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
         return made;
       })},
      {"does not need",
       [](VirtualMachine& vm) {
         const UniqueFd made = MemoryFile(4096);
         vm.Send(3, {}, {made.get()});
       }},
      {"too many descriptors",
       [](VirtualMachine& vm) {
         const UniqueFd made = MemoryFile(4096);
         vm.Send(3, {}, std::vector<int>(9, made.get()));
       }},
      {"without its descriptor", message(12, Bytes(uint64_t{0}))},
      {"ring without kicks", message(12, Bytes(uint64_t{1 << 8}))},
      {"without its descriptor",
       [](VirtualMachine& vm) {
         vm.Send(12, Bytes(uint64_t{0}), {vm.kick(0).get(), vm.kick(1).get()});
       }},
      {"does not exist", [](VirtualMachine& vm) {
         vm.Send(12, Bytes(uint64_t{3}), {vm.kick(0).get()});
       }},
      {"does not exist", [](VirtualMachine& vm) {
         vm.Send(13, Bytes(uint64_t{1} << 32), {vm.kick(0).get()});
       }},
      {"no eventfd", kick(pipe)},
      {"no eventfd", kick([] { return *sys::Open("/dev/null", O_RDWR); })},
      {"no eventfd", kick([] { return std::move(sys::UnixPair(SOCK_STREAM)->a); })},
      {"no eventfd", kick([] { return MemoryFile(4096); })},
      {"no eventfd", [pipe](VirtualMachine& vm) {
         const UniqueFd made = pipe();
         vm.Send(13, Bytes(uint64_t{0}), {made.get()});
       }},
      {"does not exist", message(8, VirtualMachine::Pair(3, 128))},
      {"does not exist", message(11, VirtualMachine::Pair(0xffffffff, 0))},
      {"does not exist", message(18, VirtualMachine::Pair(0, 2))},
      {"size is wrong", message(8, VirtualMachine::Pair(0, 0))},
      {"size is wrong", message(8, VirtualMachine::Pair(0, 100))},
      {"size is wrong", message(8, VirtualMachine::Pair(0, 2048))},
      {"size is wrong", message(8, VirtualMachine::Pair(0, 0x80000000))},
      {"wrong index", message(10, VirtualMachine::Pair(0, 0x10000))},
      {"without a size", [](VirtualMachine& vm) {
         vm.Send(12, Bytes(uint64_t{0}), {vm.kick(0).get()});
         vm.Send(18, VirtualMachine::Pair(0, 1));
       }},
      {"ring is not in", ring(kM + Place::kMemory - 2047, kM, kM)},
      {"ring is not in", ring(kM, kM + Place::kMemory - 1027, kM)},
      {"ring is not in", ring(kM, kM, kM + Place::kMemory - 259)},
      {"ring is not in", ring(Place::kGuest, kM, kM)},
      {"ring is not in", ring(kMax - 2047, kM, kM)},
      {"not aligned", ring(kM + 8, kM, kM)},
      {"not aligned", ring(kM, kM + 2, kM)},
      {"not aligned", ring(kM, kM, kM + 1)},
      {"while it runs", [](VirtualMachine& vm) {
         vm.SetRing(0);
         vm.Send(8, VirtualMachine::Pair(0, 64));
       }},
      {"log that is not offered",
       message(9, VirtualMachine::Pair(0, 1) + std::string(32, '\0'))},
  };
  for (const BadMessage& bad : cases) {
    SCOPED_TRACE(bad.word);
    VirtualMachine vm;
    vm.Agree();
    ASSERT_FALSE(vm.ended);
    bad.sends(vm);
    ExpectEnded(vm, bad.word);
  }
}

TEST(HostileMonitor, MemoryGoneFromUnderARingEndsTheDevice) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd other = MemoryFile(4096);
  vm.Send(5, VirtualMachine::Pair(1, 0) + Region(0, 4096, 0), {other.get()});
  ExpectEnded(vm, "ring is not in");
}

TEST(HostileMonitor, ABufferAcrossTwoRegionsIsRefused) {
  VirtualMachine vm;
  vm.Agree();
  constexpr uint64_t kHalf = Place::kMemory / 2;
  vm.Send(5,
          VirtualMachine::Pair(2, 0) + Region(Place::kGuest, kHalf, Place::kMonitor) +
              Region(Place::kGuest + kHalf, kHalf, Place::kMonitor + kHalf, kHalf),
          {vm.file(), vm.file()});
  vm.SetRing(0);
  vm.SetRing(1);
  for (int i = 0; i < 8; ++i) vm.PostBuffer();
  // It works with two regions,
  EXPECT_TRUE(vm.Accept(1, 1026).valid());
  // but not across them.
  vm.PutDescriptor(kTx, 2, Place::kGuest + kHalf - 22, 44, 0, 0);
  vm.MakeAvailable(kTx, 2);
  vm.Kick(kTx);
  ExpectEnded(vm, "not in the guest's memory");
}

TEST(HostileMonitor, AMonitorThatTakesNoRepliesEndsTheDevice) {
  VirtualMachine vm;
  for (int i = 0; i < 100'000 && !vm.ended; ++i) vm.Send(1, {});
  ASSERT_TRUE(vm.ended);
  EXPECT_FALSE(*vm.ended);
}

TEST(HostileMonitor, NobodyElseMayConnect) {
  VirtualMachine vm;
  vm.Boot();
  sockaddr_un address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getpeername(vm.monitor.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(::connect(second.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
}

// ---- the end, and what a monitor does while it lives

TEST(Monitor, TheLastPacketsAreDeliveredWhenItGoes) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  Header header = vm.HeaderFor(1000, 1026, VIRTIO_VSOCK_OP_RW);
  header.len = 7;
  vm.Put(header, "exit 42");  // nobody has kicked
  vm.monitor.reset();
  vm.Turn();
  char bytes[16];
  ASSERT_EQ(::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT), 7);
  EXPECT_EQ(std::string(bytes, 7), "exit 42");
  EXPECT_EQ(::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT), 0);
  ASSERT_TRUE(vm.ended);
  EXPECT_TRUE(*vm.ended);
}

TEST(Monitor, ItsEndWaitsForHostSockets) {
  VirtualMachine vm;
  vm.Boot();
  vm.send_buffer = 1;
  const UniqueFd socket = vm.Accept(1000, 1026);
  for (int i = 0; i < 20; ++i) vm.Give(1000, 1026, VIRTIO_VSOCK_OP_RW, std::string(4096, 'x'));
  vm.monitor.reset();
  vm.Turn();
  EXPECT_FALSE(vm.ended);
  size_t read = 0;
  char bytes[4096];
  for (int i = 0; i < 10'000 && !vm.ended; ++i) {
    const ssize_t n = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) read += static_cast<size_t>(n);
    vm.Turn();
  }
  for (ssize_t n; (n = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
    read += static_cast<size_t>(n);
  }
  EXPECT_EQ(read, 20U * 4096);
  ASSERT_TRUE(vm.ended);
  EXPECT_TRUE(*vm.ended);
}

TEST(Monitor, ItsEndWaitsNoLongerThanTheLimit) {
  VirtualMachine vm({.close_us = 20'000});
  vm.Boot();
  vm.send_buffer = 1;
  const UniqueFd socket = vm.Accept(1000, 1026);
  for (int i = 0; i < 20; ++i) vm.Give(1000, 1026, VIRTIO_VSOCK_OP_RW, std::string(4096, 'x'));
  vm.monitor.reset();
  for (int i = 0; i < 100 && !vm.ended; ++i) vm.TurnFor(20'000);
  ASSERT_TRUE(vm.ended);
  EXPECT_TRUE(*vm.ended);
}

TEST(Monitor, StopsAndContinuesWithTheStreams) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  vm.Send(11, VirtualMachine::Pair(0, 0));
  const std::string rx = *vm.Reply();
  vm.Send(11, VirtualMachine::Pair(1, 0));
  const std::string tx = *vm.Reply();
  EXPECT_EQ(rx, VirtualMachine::Pair(0, 1));  // one response
  EXPECT_EQ(tx, VirtualMachine::Pair(1, 1));  // one request
  ASSERT_EQ(::send(socket.get(), "wait", 4, 0), 4);
  vm.Turn();
  EXPECT_FALSE(vm.Take());
  vm.SetRing(0, 1);
  vm.SetRing(1, 1);
  EXPECT_EQ(vm.TakeData(), "wait");
}

TEST(Monitor, ADriverThatBeginsAnewKnowsNoStream) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  vm.Send(11, VirtualMachine::Pair(0, 0));
  vm.Send(11, VirtualMachine::Pair(1, 0));
  char byte;
  EXPECT_LT(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0);
  vm.Send(10, VirtualMachine::Pair(0, 0));
  EXPECT_EQ(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_FALSE(vm.ended);
}

TEST(Monitor, APacketOnTheQueueIsTakenBeforeTheQueueStops) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  Header header = vm.HeaderFor(1000, 1026, VIRTIO_VSOCK_OP_RW);
  header.len = 4;
  vm.Put(header, "last");
  vm.Send(11, VirtualMachine::Pair(1, 0));
  EXPECT_EQ(vm.Reply(), VirtualMachine::Pair(1, 2));
  char bytes[8];
  EXPECT_EQ(::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT), 4);
}

TEST(Monitor, MayChangeTheMemoryWhileQueuesRun) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  for (int i = 0; i < 100; ++i) vm.SetMemory();
  vm.Give(1000, 1026, VIRTIO_VSOCK_OP_RW, "still");
  char bytes[8];
  EXPECT_EQ(::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT), 5);
}

TEST(Monitor, AQueueThatIsNotEnabledIsNotRead) {
  VirtualMachine vm;
  vm.Agree();
  vm.SetRing(0);
  vm.SetRingParts(1);
  vm.Give(1000, 1026, VIRTIO_VSOCK_OP_REQUEST);
  EXPECT_FALSE(vm.asked);
  vm.Send(18, VirtualMachine::Pair(1, 1));
  EXPECT_TRUE(vm.asked);
}

TEST(Monitor, TheGuestIsInterruptedUnlessItLooksItself) {
  VirtualMachine vm;
  vm.Boot();
  vm.Interrupted(0);
  vm.Interrupted(1);
  vm.Give(1000, 1026, VIRTIO_VSOCK_OP_REQUEST);
  EXPECT_TRUE(vm.Interrupted(0));
  EXPECT_TRUE(vm.Interrupted(1));
  for (const size_t ring : Place::kRings) vm.Put(ring + Place::kAvailable, uint16_t{1});
  vm.Give(1001, 1026, VIRTIO_VSOCK_OP_REQUEST);
  EXPECT_FALSE(vm.Interrupted(0));
  EXPECT_FALSE(vm.Interrupted(1));
}

TEST(Device, RefusesACidThatIsNoGuests) {
  auto loop = *EventLoop::Create();
  for (const uint64_t cid : {uint64_t{0}, uint64_t{2}, uint64_t{0xffffffff}, uint64_t{1} << 32}) {
    auto device = VsockDevice::Start(
        *loop, UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), cid,
        [](uint32_t) { return Fail(Code::kNotFound, ""); }, [](const Status&) {});
    EXPECT_FALSE(device) << cid;
  }
}

TEST(Device, MayBeDestroyedAtAnyTime) {
  VirtualMachine vm;
  vm.Boot();
  const UniqueFd socket = vm.Accept(1000, 1026);
  vm.Put(vm.HeaderFor(1001, 1026, VIRTIO_VSOCK_OP_REQUEST));
  ::eventfd_write(vm.kick(1).get(), 1);
  vm.DestroyDevice();
  vm.Turn();
  char byte;
  EXPECT_EQ(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_FALSE(vm.ended);
}

}  // namespace
}  // namespace atl::vsock
