// Streams between a guest and host sockets, on a machine that keeps the rules, and on one that
// breaks the rules of a stream.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/vsock/virtual_machine.h"

namespace atl::vsock {
namespace {

constexpr uint16_t kRequest = VIRTIO_VSOCK_OP_REQUEST, kResponse = VIRTIO_VSOCK_OP_RESPONSE,
                   kRst = VIRTIO_VSOCK_OP_RST, kShutdown = VIRTIO_VSOCK_OP_SHUTDOWN,
                   kRw = VIRTIO_VSOCK_OP_RW, kUpdate = VIRTIO_VSOCK_OP_CREDIT_UPDATE,
                   kAskCredit = VIRTIO_VSOCK_OP_CREDIT_REQUEST;

class StreamsTest : public testing::Test {
 protected:
  void SetUp() override { vm_.Boot(); }

  void Write(const UniqueFd& socket, std::string_view text) {
    ASSERT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    vm_.Turn();
  }
  // Reads what there is.
  static std::string Read(const UniqueFd& socket) {
    std::string all;
    char bytes[65536];
    for (ssize_t n; (n = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
      all.append(bytes, static_cast<size_t>(n));
    }
    return all;
  }
  // The other end has closed or ended its direction, and all was read.
  static bool AtEnd(const UniqueFd& socket) {
    char byte;
    const ssize_t n = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }
  static bool Takes(const UniqueFd& socket) {
    return ::send(socket.get(), "", 0, MSG_NOSIGNAL) == 0 &&
           ::send(socket.get(), "x", 1, MSG_NOSIGNAL) == 1;
  }
  // Fills the host's end of `port` until bytes have to wait in the device. Returns what was sent.
  std::string Fill(uint32_t guest_port, uint32_t port, size_t size) {
    std::string sent;
    while (sent.size() < size) {
      const std::string piece(std::min<size_t>(4096, size - sent.size()),
                              static_cast<char>('a' + sent.size() / 4096 % 26));
      vm_.Give(guest_port, port, kRw, piece);
      sent += piece;
    }
    return sent;
  }

  VirtualMachine vm_;
};

TEST_F(StreamsTest, TheGuestConnects) {
  vm_.Give(1000, 1026, kRequest);
  EXPECT_EQ(vm_.asked, 1026U);
  const auto response = vm_.Take();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->header.op, kResponse);
  EXPECT_EQ(response->header.src_cid, kHostCid);
  EXPECT_EQ(response->header.dst_cid, VirtualMachine::kCid);
  EXPECT_EQ(response->header.src_port, 1026U);
  EXPECT_EQ(response->header.dst_port, 1000U);
  EXPECT_EQ(response->header.type, VIRTIO_VSOCK_TYPE_STREAM);
  EXPECT_EQ(response->header.buf_alloc, kStreamBuffer);
  EXPECT_EQ(response->header.len, 0U);
  vm_.Give(1000, 1026, kRw, "ready");
  EXPECT_EQ(Read(vm_.accepted), "ready");
  Write(vm_.accepted, "go");
  EXPECT_EQ(vm_.TakeData(), "go");
}

TEST_F(StreamsTest, AConnectionThatTheHandlerRefusesIsReset) {
  vm_.refuse = true;
  vm_.Give(1000, 22, kRequest);
  const auto reset = vm_.Take();
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->header.op, kRst);
  EXPECT_EQ(reset->header.src_port, 22U);
  EXPECT_EQ(reset->header.dst_port, 1000U);
  EXPECT_FALSE(vm_.ended);
}

TEST_F(StreamsTest, TheHostConnects) {
  const UniqueFd socket = vm_.Connect(1024);
  ASSERT_TRUE(socket.valid());
  Write(socket, "GET /");
  EXPECT_EQ(vm_.TakeData(), "GET /");
  vm_.Give(1024, vm_.host_port, kRw, "200");
  EXPECT_EQ(Read(socket), "200");
}

TEST_F(StreamsTest, NoByteGoesBeforeTheGuestAnswers) {
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  Write(pair.a, "early");
  vm_.device().Connect(1024, std::move(pair.b));
  const auto request = vm_.Take();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->header.op, kRequest);
  EXPECT_FALSE(vm_.Take());
  vm_.Give(1024, request->header.src_port, kResponse);
  EXPECT_EQ(vm_.TakeData(), "early");
}

TEST_F(StreamsTest, ARefusedConnectionIsClosed) {
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  vm_.device().Connect(1024, std::move(pair.b));
  const auto request = vm_.Take();
  ASSERT_TRUE(request);
  EXPECT_FALSE(AtEnd(pair.a));
  vm_.Give(1024, request->header.src_port, kRst);
  EXPECT_TRUE(AtEnd(pair.a));
  EXPECT_FALSE(vm_.Take());
}

TEST_F(StreamsTest, ManyBytesBothWaysArriveInOrder) {
  const UniqueFd socket = vm_.Connect(1024);
  std::string sent, received, answered, read;
  for (int i = 0; i < 200; ++i) {
    const std::string piece(static_cast<size_t>(1 + i * 37 % 20000),
                            static_cast<char>('A' + i % 50));
    Write(socket, piece);
    sent += piece;
    received += vm_.TakeData();
    const std::string answer(static_cast<size_t>(1 + i * 91 % 4096),
                             static_cast<char>('a' + i % 26));
    vm_.Give(1024, vm_.host_port, kRw, answer);
    answered += answer;
    read += Read(socket);
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(read, answered);
}

TEST_F(StreamsTest, EveryBufferButTheLastIsFull) {
  const UniqueFd socket = vm_.Connect(1024);
  const std::string sent(100'000, 'x');
  Write(socket, sent);
  std::string received;
  size_t packets = 0;
  while (auto packet = vm_.Take()) {
    ++packets;
    received += packet->data;
  }
  EXPECT_EQ(received.size(), sent.size());
  EXPECT_EQ(packets, (sent.size() + 4095) / 4096);
}

TEST_F(StreamsTest, TheHostIsReadNoFurtherThanTheGuestHasRoom) {
  const UniqueFd socket = vm_.Connect(1024, 100);
  Write(socket, std::string(250, 'x'));
  EXPECT_EQ(vm_.TakeData().size(), 100U);
  ASSERT_TRUE(vm_.last);
  EXPECT_EQ(vm_.last->header.op, kAskCredit);
  vm_.Turn();
  EXPECT_EQ(vm_.TakeOp(), 0);  // asked once
  Header update = vm_.HeaderFor(1024, vm_.host_port, kUpdate);
  update.buf_alloc = 100;
  vm_.GivePacket(update);  // took 100
  EXPECT_EQ(vm_.TakeData().size(), 100U);
  EXPECT_EQ(vm_.last->header.op, kAskCredit);
  update = vm_.HeaderFor(1024, vm_.host_port, kUpdate);
  update.buf_alloc = 100;
  vm_.GivePacket(update);
  EXPECT_EQ(vm_.TakeData().size(), 50U);
}

TEST_F(StreamsTest, AGuestThatTookMoreThanItGotGetsNothing) {
  const UniqueFd socket = vm_.Connect(1024, 100);
  Header update = vm_.HeaderFor(1024, vm_.host_port, kUpdate);
  update.fwd_cnt = 1'000'000;
  vm_.GivePacket(update);
  Write(socket, "x");
  EXPECT_EQ(vm_.TakeOp(), kAskCredit);
  EXPECT_FALSE(vm_.Take());
  EXPECT_FALSE(vm_.ended);
}

TEST_F(StreamsTest, BytesThatTheHostDoesNotTakeWaitUpToTheCredit) {
  vm_.send_buffer = 1;  // the kernel's least
  const UniqueFd socket = vm_.Accept(1000, 1026);
  ASSERT_TRUE(socket.valid());
  uint32_t fwd_cnt = 0;
  std::string sent;
  // A guest that counts as the device told it to.
  for (;;) {
    const size_t room = kStreamBuffer - (sent.size() - fwd_cnt);
    if (room == 0) break;
    const std::string piece(std::min<size_t>(room, 4096),
                            static_cast<char>('a' + sent.size() % 23));
    vm_.Give(1000, 1026, kRw, piece);
    sent += piece;
    while (auto packet = vm_.Take()) {
      ASSERT_EQ(packet->header.op, kUpdate);
      fwd_cnt = packet->header.fwd_cnt;
    }
    ASSERT_LT(sent.size(), 4 * kStreamBuffer);
  }
  EXPECT_GE(sent.size(), kStreamBuffer);
  vm_.Give(1000, 1026, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
  const auto answer = vm_.Take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.op, kUpdate);
  EXPECT_LE(answer->header.fwd_cnt, sent.size());
  std::string read;
  for (int i = 0; i < 10000 && read.size() < sent.size(); ++i) {
    read += Read(socket);
    vm_.Turn();
  }
  EXPECT_EQ(read, sent);
  // The guest hears that there is room again.
  EXPECT_EQ(vm_.TakeOp(), kUpdate);
}

TEST_F(StreamsTest, AGuestBeyondItsCreditLosesTheStreamButNotItsBytes) {
  vm_.send_buffer = 1;
  const UniqueFd socket = vm_.Accept(1000, 1026);
  std::string sent;
  bool reset = false;
  while (!reset && sent.size() < 4 * kStreamBuffer) {
    sent += Fill(1000, 1026, 4096);
    while (auto packet = vm_.Take()) reset = reset || packet->header.op == kRst;
  }
  EXPECT_TRUE(reset);
  EXPECT_LT(sent.size(), 2 * kStreamBuffer);
  std::string read;
  for (int i = 0; i < 10000 && !AtEnd(socket); ++i) {
    read += Read(socket);
    vm_.Turn();
  }
  EXPECT_GT(read.size() + 2 * 4096, sent.size());
  EXPECT_TRUE(sent.starts_with(read.substr(0, 1000)));
  EXPECT_FALSE(vm_.ended);
}

TEST_F(StreamsTest, TheGuestHearsOfRoomEveryQuarter) {
  const UniqueFd socket = vm_.Accept(1000, 1026);
  size_t updates = 0;
  uint32_t fwd_cnt = 0;
  for (int i = 0; i < 256; ++i) {
    vm_.Give(1000, 1026, kRw, std::string(4096, 'x'));
    EXPECT_EQ(Read(socket).size(), 4096U);
    while (auto packet = vm_.Take()) {
      EXPECT_EQ(packet->header.op, kUpdate);
      fwd_cnt = packet->header.fwd_cnt;
      ++updates;
    }
  }
  EXPECT_EQ(updates, (1U << 20) / (kStreamBuffer / 4));
  EXPECT_EQ(fwd_cnt, 1U << 20);
}

TEST_F(StreamsTest, TheGuestEndsItsDirection) {
  const UniqueFd socket = vm_.Accept(1000, 1026);
  vm_.Give(1000, 1026, kRw, "last");
  vm_.Give(1000, 1026, kShutdown, {}, kEndSend);
  EXPECT_EQ(Read(socket), "last");
  EXPECT_TRUE(AtEnd(socket));
  Write(socket, "answer");
  EXPECT_EQ(vm_.TakeData(), "answer");
  // Both directions have ended now, so the guest is told of both, and confirms.
  ::shutdown(socket.get(), SHUT_WR);
  const auto end = vm_.Take();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->header.op, kShutdown);
  EXPECT_EQ(end->header.flags, kEndBoth);
  vm_.Give(1000, 1026, kRst);
  EXPECT_FALSE(vm_.Take());
}

TEST_F(StreamsTest, TheHostEndsItsDirection) {
  const UniqueFd socket = vm_.Connect(1024);
  Write(socket, "request");
  ::shutdown(socket.get(), SHUT_WR);
  EXPECT_EQ(vm_.TakeData(), "request");
  ASSERT_TRUE(vm_.last);
  EXPECT_EQ(vm_.last->header.op, kShutdown);
  EXPECT_EQ(vm_.last->header.flags, kEndSend);
  vm_.Give(1024, vm_.host_port, kRw, "answer");
  EXPECT_EQ(Read(socket), "answer");
  EXPECT_FALSE(AtEnd(socket));
  vm_.Give(1024, vm_.host_port, kShutdown, {}, kEndBoth);
  EXPECT_TRUE(AtEnd(socket));
  EXPECT_EQ(vm_.TakeOp(), kRst);
}

TEST_F(StreamsTest, AGuestThatReadsNoMoreStopsTheHost) {
  const UniqueFd socket = vm_.Accept(1000, 1026);
  vm_.Give(1000, 1026, kShutdown, {}, kEndReceive);
  EXPECT_FALSE(Takes(socket));
  vm_.Give(1000, 1026, kRw, "still");
  EXPECT_EQ(Read(socket), "still");
}

TEST_F(StreamsTest, AHostThatReadsNoMoreStopsTheGuest) {
  const UniqueFd socket = vm_.Accept(1000, 1026);
  ::shutdown(socket.get(), SHUT_RD);
  vm_.Give(1000, 1026, kRw, "nobody");
  const auto end = vm_.Take();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->header.op, kShutdown);
  EXPECT_EQ(end->header.flags, kEndReceive);
  vm_.Give(1000, 1026, kRw, "in flight");
  EXPECT_FALSE(vm_.Take());
  Write(socket, "still");
  EXPECT_EQ(vm_.TakeData(), "still");
}

TEST_F(StreamsTest, BytesOfAGuestThatClosesAreDelivered) {
  vm_.send_buffer = 1;
  const UniqueFd socket = vm_.Accept(1000, 1026);
  const std::string sent = Fill(1000, 1026, 100'000);
  vm_.Give(1000, 1026, kShutdown, {}, kEndBoth);
  EXPECT_EQ(vm_.TakeOp(), kRst);
  // The guest may use the port again at once.
  vm_.send_buffer.reset();
  const UniqueFd next = vm_.Accept(1000, 1026);
  EXPECT_TRUE(next.valid());
  std::string read;
  for (int i = 0; i < 10000 && read.size() < sent.size(); ++i) {
    read += Read(socket);
    vm_.Turn();
  }
  EXPECT_EQ(read, sent);
  EXPECT_TRUE(AtEnd(socket));
  EXPECT_FALSE(AtEnd(next));
}

TEST_F(StreamsTest, BytesOfAHostThatClosesAreDelivered) {
  UniqueFd socket = vm_.Connect(1024);
  const std::string sent(50'000, 'x');
  Write(socket, sent);
  socket.reset();
  EXPECT_EQ(vm_.TakeData().size(), sent.size());
  ASSERT_TRUE(vm_.last);
  EXPECT_EQ(vm_.last->header.op, kShutdown);
  EXPECT_EQ(vm_.last->header.flags, kEndBoth);
  vm_.Give(1024, vm_.host_port, kRw, "in flight");  // sent before the guest heard of the end
  EXPECT_FALSE(vm_.Take());
  vm_.Give(1024, vm_.host_port, kShutdown, {}, kEndBoth);
  EXPECT_EQ(vm_.TakeOp(), kRst);
}

TEST_F(StreamsTest, APacketThatDoesNotFitResetsTheStream) {
  for (const uint16_t op : {kRequest, kResponse, uint16_t{0}, uint16_t{8}, uint16_t{0xffff}}) {
    const UniqueFd socket = vm_.Accept(1000, 1026);
    ASSERT_TRUE(socket.valid());
    vm_.Give(1000, 1026, op);
    EXPECT_TRUE(AtEnd(socket)) << op;
    EXPECT_EQ(vm_.TakeOp(), kRst) << op;
  }
  const UniqueFd socket = vm_.Accept(1000, 1026);
  vm_.Give(1000, 1026, kShutdown, {}, kEndSend);
  vm_.Give(1000, 1026, kRw, "after the end");
  EXPECT_EQ(vm_.TakeOp(), kRst);
  EXPECT_EQ(Read(socket), "");
  EXPECT_FALSE(vm_.ended);
}

TEST_F(StreamsTest, AnAnswerOtherThanYesOrNoIsNo) {
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  vm_.device().Connect(1024, std::move(pair.b));
  const auto request = vm_.Take();
  vm_.Give(1024, request->header.src_port, kRw, "unasked");
  EXPECT_EQ(Read(pair.a), "");
  EXPECT_TRUE(AtEnd(pair.a));
  EXPECT_EQ(vm_.TakeOp(), kRst);
}

TEST_F(StreamsTest, PacketsForUnknownStreamsAreReset) {
  for (const uint16_t op : {kResponse, kShutdown, kRw, kUpdate, kAskCredit, uint16_t{99}}) {
    vm_.Give(5, 6, op, op == kRw ? "data" : "");
    const auto reset = vm_.Take();
    ASSERT_TRUE(reset);
    EXPECT_EQ(reset->header.op, kRst);
    EXPECT_EQ(reset->header.src_port, 6U);
    EXPECT_EQ(reset->header.dst_port, 5U);
  }
  vm_.Give(5, 6, kRst);
  EXPECT_FALSE(vm_.Take());
}

TEST_F(StreamsTest, OtherTypesAreReset) {
  Header header = vm_.HeaderFor(1000, 1026, kRequest);
  header.type = VIRTIO_VSOCK_TYPE_SEQPACKET;
  vm_.GivePacket(header);
  const auto reset = vm_.Take();
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->header.op, kRst);
  EXPECT_EQ(reset->header.type, VIRTIO_VSOCK_TYPE_SEQPACKET);
  EXPECT_FALSE(vm_.asked);
}

TEST_F(StreamsTest, PacketsWithForeignAddressesAreIgnored) {
  const UniqueFd socket = vm_.Accept(1000, 1026);
  vm_.asked.reset();
  for (const uint64_t cid : {uint64_t{0}, uint64_t{2}, uint64_t{78}, (uint64_t{1} << 32) + 77}) {
    for (const uint16_t op : {kRequest, kRw, kRst}) {
      Header header = vm_.HeaderFor(1000, 1026, op);
      header.src_cid = cid;
      vm_.GivePacket(header);
      header = vm_.HeaderFor(1000, 1026, op);
      header.dst_cid = cid == 2 ? 3 : cid;
      vm_.GivePacket(header);
    }
  }
  EXPECT_FALSE(vm_.asked);
  EXPECT_FALSE(vm_.Take());
  vm_.Give(1000, 1026, kRw, "alive");
  EXPECT_EQ(Read(socket), "alive");
}

TEST_F(StreamsTest, AGuestThatTakesNoResetsIsNotListenedTo) {
  VirtualMachine vm;
  vm.Boot(0);
  vm.refuse = true;
  // A ring's worth at a time, as long as the device takes them.
  size_t sent = 0;
  for (int round = 0; round < 1000; ++round) {
    if (static_cast<uint16_t>(sent - vm.Used(1)) != 0) break;
    for (uint32_t i = 0; i < VirtualMachine::kSize / 2; ++i) {
      vm.Put(vm.HeaderFor(i, 22, kRequest));
      ++sent;
    }
    vm.Kick(1);
  }
  EXPECT_LT(sent, 1000U);
  EXPECT_LT(vm.Used(1), sent);
  // It is, once it takes them.
  for (uint16_t i = 0; i < VirtualMachine::kSize / 2; ++i) vm.PostBuffer();
  vm.Kick(0);
  size_t resets = 0;
  while (vm.TakeOp() == kRst) ++resets;
  EXPECT_EQ(resets, sent);
  EXPECT_EQ(vm.Used(1), sent);
  EXPECT_FALSE(vm.ended);
}

TEST_F(StreamsTest, AConnectionWaitsForTheGuestsDriver) {
  VirtualMachine vm;
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  vm.device().Connect(1024, std::move(pair.b));
  vm.Turn();
  EXPECT_FALSE(AtEnd(pair.a));
  vm.Boot();
  const auto request = vm.Take();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->header.op, kRequest);
}

TEST_F(StreamsTest, OneStreamThatStandsStillHoldsUpNoOther) {
  vm_.send_buffer = 1;
  const UniqueFd stuck = vm_.Accept(1000, 1026);
  Fill(1000, 1026, 100'000);
  vm_.send_buffer.reset();
  const UniqueFd socket = vm_.Accept(1001, 1026);
  vm_.Give(1001, 1026, kRw, "passes");
  EXPECT_EQ(Read(socket), "passes");
}

TEST_F(StreamsTest, StreamsTakeTurns) {
  const UniqueFd a = vm_.Connect(1024);
  const uint32_t a_port = vm_.host_port;
  const UniqueFd b = vm_.Connect(1024);
  const uint32_t b_port = vm_.host_port;
  Write(a, std::string(150'000, 'a'));
  Write(b, "b");
  size_t before_b = 0;
  for (auto packet = vm_.Take(); packet && packet->header.src_port != b_port; packet = vm_.Take()) {
    EXPECT_EQ(packet->header.src_port, a_port);
    ++before_b;
  }
  EXPECT_LT(before_b * 4096, 150'000U + 4096);
}

class LimitedStreamsTest : public StreamsTest {
 protected:
  LimitedStreamsTest() = default;
  static VsockDevice::Limits Few() {
    return {.streams = 3, .connect_us = 20'000, .close_us = 20'000};
  }
  VirtualMachine few_{Few()};
  void SetUp() override { few_.Boot(); }
};

TEST_F(LimitedStreamsTest, StreamsAreCounted) {
  std::vector<UniqueFd> sockets;
  for (uint32_t port = 1; port <= 3; ++port) sockets.push_back(few_.Accept(port, 1026));
  few_.asked.reset();
  few_.Give(4, 1026, kRequest);
  EXPECT_EQ(few_.TakeOp(), kRst);
  EXPECT_FALSE(few_.asked);
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  few_.device().Connect(1024, std::move(pair.b));
  EXPECT_TRUE(AtEnd(pair.a));
  few_.Give(1, 1026, kShutdown, {}, kEndBoth);
  EXPECT_EQ(few_.TakeOp(), kRst);
  EXPECT_TRUE(few_.Accept(4, 1026).valid());
}

TEST_F(LimitedStreamsTest, AStreamCountsUntilItsBytesAreTaken) {
  few_.send_buffer = 1;
  std::vector<UniqueFd> sockets;
  for (uint32_t port = 1; port <= 3; ++port) {
    sockets.push_back(few_.Accept(port, 1026));
    for (int i = 0; i < 20; ++i) few_.Give(port, 1026, kRw, std::string(4096, 'x'));
    few_.Give(port, 1026, kShutdown, {}, kEndBoth);
    EXPECT_EQ(few_.TakeOp(), kRst);
  }
  EXPECT_FALSE(few_.Accept(4, 1026).valid());
  for (int i = 0; i < 1000 && !AtEnd(sockets[0]); ++i) {
    Read(sockets[0]);
    few_.Turn();
  }
  EXPECT_TRUE(few_.Accept(4, 1026).valid());
}

TEST_F(LimitedStreamsTest, AGuestThatDoesNotAnswerHasRefused) {
  auto pair = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
  few_.device().Connect(1024, std::move(pair.b));
  EXPECT_EQ(few_.TakeOp(), kRequest);
  few_.TurnFor(Few().connect_us);
  EXPECT_TRUE(AtEnd(pair.a));
  EXPECT_EQ(few_.TakeOp(), kRst);
}

TEST_F(LimitedStreamsTest, AGuestThatDoesNotConfirmTheEndIsReset) {
  UniqueFd socket = few_.Connect(1024);
  socket.reset();
  EXPECT_EQ(few_.TakeOp(), kShutdown);
  EXPECT_FALSE(few_.Take());
  few_.TurnFor(Few().close_us);
  EXPECT_EQ(few_.TakeOp(), kRst);
}

TEST_F(LimitedStreamsTest, AnAnsweredConnectionHasNoDeadline) {
  const UniqueFd socket = few_.Connect(1024);
  few_.TurnFor(2 * Few().connect_us);
  Write(socket, "late");
  EXPECT_EQ(few_.TakeData(), "late");
}

}  // namespace
}  // namespace atl::vsock
