// Headers of refused packets: hostile bytes of any length.
#include "netpolicy/rules/packet_log.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <random>
#include <vector>

namespace atl::netpolicy {
namespace {

std::vector<uint8_t> Ipv4(uint8_t header_words, uint8_t protocol, uint16_t fragment = 0) {
  std::vector<uint8_t> packet(size_t{header_words} * 4 + 8);
  packet[0] = static_cast<uint8_t>(0x40 | header_words);
  packet[6] = static_cast<uint8_t>(fragment >> 8);
  packet[7] = static_cast<uint8_t>(fragment & 0xff);
  packet[9] = protocol;
  packet[16] = 203, packet[17] = 0, packet[18] = 113, packet[19] = 2;
  packet[size_t{header_words} * 4 + 2] = 0x01;
  packet[size_t{header_words} * 4 + 3] = 0xbb;
  return packet;
}

TEST(PacketLog, ReadsWhereAPacketWent) {
  const auto tcp = ParseLoggedPacket(7, Ipv4(5, IPPROTO_TCP));
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->ifindex, 7U);
  EXPECT_EQ(tcp->destination.ToString(), "203.0.113.2");
  EXPECT_EQ(tcp->protocol, IPPROTO_TCP);
  EXPECT_EQ(tcp->port, 443);
  EXPECT_EQ(ParseLoggedPacket(7, Ipv4(15, IPPROTO_UDP))->port, 443) << "behind options";
  EXPECT_EQ(ParseLoggedPacket(7, Ipv4(5, IPPROTO_ICMP))->port, 0);
  EXPECT_EQ(ParseLoggedPacket(7, Ipv4(5, IPPROTO_TCP, 0x0001))->port, 0) << "a later fragment";

  std::vector<uint8_t> ipv6(44);
  ipv6[0] = 0x60;
  ipv6[6] = IPPROTO_UDP;
  ipv6[24] = 0x20, ipv6[25] = 0x01, ipv6[26] = 0x0d, ipv6[27] = 0xb8, ipv6[39] = 2;
  ipv6[43] = 53;
  const auto udp = ParseLoggedPacket(7, ipv6);
  ASSERT_TRUE(udp);
  EXPECT_EQ(udp->destination.ToString(), "2001:db8::2");
  EXPECT_EQ(udp->port, 53);
}

TEST(PacketLog, TakesAnyBytes) {
  EXPECT_FALSE(ParseLoggedPacket(1, {}));
  EXPECT_FALSE(ParseLoggedPacket(1, std::vector<uint8_t>(19, 0x45)));
  EXPECT_FALSE(ParseLoggedPacket(1, std::vector<uint8_t>(39, 0x60)));
  EXPECT_FALSE(ParseLoggedPacket(1, std::vector<uint8_t>(64, 0x00)));
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same bytes each time
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> packet(random() % 70);
    for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random());
    if (!packet.empty())
      packet[0] = static_cast<uint8_t>((i % 2 == 0 ? 0x40 : 0x60) | random() % 16);
    (void)ParseLoggedPacket(1, packet);  // the sanitizers check it
  }
}

}  // namespace
}  // namespace atl::netpolicy
