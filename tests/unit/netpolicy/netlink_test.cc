#include "netpolicy/link/netlink.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>

namespace atl::netpolicy {
namespace {

// Returns the bytes that Exchange sends. A socket pair records them in place of the kernel. It
// never answers, so Exchange returns an error.
std::vector<uint8_t> Sent(const NetlinkBatch& batch) {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd ours(fds[0]), kernel(fds[1]);
  EXPECT_FALSE(Exchange(ours.get(), batch).has_value());
  std::vector<uint8_t> bytes(65536);
  const ssize_t n = ::recv(kernel.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

TEST(NetlinkBatch, LaysOutMessagesAndNests) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWLINK, NLM_F_CREATE, "one");
  ifinfomsg header{};
  header.ifi_index = 7;
  batch.Header(header);
  batch.PutString(IFLA_IFNAME, "eth0");
  {
    auto info = batch.OpenNest(IFLA_LINKINFO);
    batch.PutU8(1, 9);
    auto data = batch.OpenNest(2);
    batch.PutBe32(3, 0x01020304);
  }
  batch.Begin(RTM_DELLINK, NetlinkBatch::kNoAck, "two");
  batch.Header(header);
  const std::vector<uint8_t> bytes = Sent(batch);

  const auto* first = reinterpret_cast<const nlmsghdr*>(bytes.data());
  ASSERT_GE(bytes.size(), sizeof(nlmsghdr));
  EXPECT_EQ(first->nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(first->nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE);
  const auto attributes = Attributes(first, sizeof(ifinfomsg));
  ASSERT_EQ(attributes.size(), 2U);
  EXPECT_EQ(attributes[0].type, IFLA_IFNAME);
  EXPECT_EQ(attributes[0].Text(), "eth0");
  const auto nested = Attributes(attributes[1].bytes);
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_EQ(nested[0].bytes.size(), 1U);
  EXPECT_EQ(Attributes(nested[1].bytes).at(0).Be32(), 0x01020304U);

  const auto* second = reinterpret_cast<const nlmsghdr*>(bytes.data() + first->nlmsg_len);
  ASSERT_EQ(bytes.size(), first->nlmsg_len + second->nlmsg_len);
  EXPECT_EQ(second->nlmsg_flags, NLM_F_REQUEST);
  EXPECT_EQ(second->nlmsg_seq, first->nlmsg_seq + 1);
}

TEST(NetlinkMessages, EndBehindALastOneOfUnevenLength) {
  // 18 bytes end a datagram. The next message would begin at 20.
  alignas(nlmsghdr) std::array<uint8_t, 64> buffer{};
  auto* message = reinterpret_cast<nlmsghdr*>(buffer.data());
  message->nlmsg_len = sizeof(nlmsghdr) + 2;
  reinterpret_cast<nlmsghdr*>(buffer.data() + 20)->nlmsg_len = sizeof(nlmsghdr);
  std::span<const uint8_t> left(buffer.data(), sizeof(nlmsghdr) + 2);
  EXPECT_EQ(TakeMessage(&left), message);
  EXPECT_EQ(TakeMessage(&left), nullptr);
  EXPECT_EQ(HeaderOf<ifinfomsg>(message).ifi_index, 0) << "the message ends before it";
}

TEST(NetlinkAttributes, EndWhereALengthLies) {
  const uint8_t too_long[] = {8, 0, 1, 0, 1, 2, 3, 4, 200, 0, 2, 0, 5, 6, 7, 8};
  ASSERT_EQ(Attributes(too_long).size(), 1U);
  const uint8_t too_short[] = {3, 0, 1, 0, 1, 2, 3, 4};
  EXPECT_TRUE(Attributes(too_short).empty());
  const uint8_t scrap[] = {8, 0, 1};
  EXPECT_TRUE(Attributes(scrap).empty());
}

// The request changes nothing: it asks for an interface that does not exist.
TEST(NetlinkExchange, NamesTheRequestThatFailed) {
  const auto socket = OpenNetlink(NETLINK_ROUTE);
  ASSERT_TRUE(socket.has_value());
  NetlinkBatch batch;
  for (const int index : {1, 0x7ffffff0}) {
    batch.Begin(RTM_GETLINK, 0, "RTM_GETLINK " + std::to_string(index));
    ifinfomsg header{};
    header.ifi_index = index;
    batch.Header(header);
  }
  const Status status = Exchange(socket->get(), batch);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().error_number(), ENODEV);
  EXPECT_EQ(status.error().message(), "RTM_GETLINK 2147483632: No such device");
  // The socket is clean for the next exchange.
  NetlinkBatch again;
  again.Begin(RTM_GETLINK, 0, "RTM_GETLINK lo");
  ifinfomsg lo{};
  lo.ifi_index = 1;
  again.Header(lo);
  EXPECT_TRUE(Exchange(socket->get(), again).has_value());
}

}  // namespace
}  // namespace atl::netpolicy
