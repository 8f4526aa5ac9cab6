#include "netpolicy/splice/host_name.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

TEST(NormalHostName, LowersAndDropsOneDot) {
  EXPECT_EQ(NormalHostName("Example.COM"), "example.com");
  EXPECT_EQ(NormalHostName("example.com."), "example.com");
  EXPECT_EQ(NormalHostName("_dmarc.a-b.xn--p1ai"), "_dmarc.a-b.xn--p1ai");
  EXPECT_EQ(NormalHostName("localhost"), "localhost");
  EXPECT_EQ(NormalHostName("1.2.3.example"), "1.2.3.example");
}

TEST(NormalHostName, RefusesWhatIsNone) {
  const std::string label(63, 'a');
  EXPECT_TRUE(NormalHostName(label + ".com"));
  EXPECT_TRUE(NormalHostName(label + "." + label + "." + label + "." + std::string(61, 'a')));
  const std::string bad[] = {
      "",
      ".",
      "..",
      "a..b",
      ".a",
      "a.b..",
      "-a.b",
      "a-.b",
      "a b",
      "a/b",
      "a\tb",
      "a@b",
      "a:80",
      "ex\xc3\xa4mple.com",
      std::string("a.com\0.evil.com", 15),
      "*.example.com",
      label + "a.com",
      label + "." + label + "." + label + "." + std::string(62, 'a'),
  };
  for (const std::string& text : bad) EXPECT_FALSE(NormalHostName(text)) << text;
}

TEST(NormalHostName, RefusesWhatSomeReadAsAddresses) {
  for (const char* text : {"192.0.2.1", "192.0.2.1.", "127.1", "2130706433", "0x7f000001", "0X7f.1",
                           "1.2.3.0x4", "example.0x", "a.0", "017700000001"}) {
    EXPECT_FALSE(NormalHostName(text)) << text;
  }
  EXPECT_TRUE(NormalHostName("0x7f.example"));
  EXPECT_TRUE(NormalHostName("a.0xyz"));
}

TEST(HostAddressBytes, ReadsAddressesOfUrls) {
  EXPECT_EQ(HostAddressBytes("192.0.2.1"), (std::string{'\xc0', 0, 2, 1}));
  EXPECT_EQ(HostAddressBytes("[::1]"), std::string(15, '\0') + '\1');
  for (const char* text : {"", "::1", "[192.0.2.1]", "192.0.2", "[fe80::1%eth0]", "[]", "a.b"}) {
    EXPECT_FALSE(HostAddressBytes(text)) << text;
  }
  EXPECT_FALSE(HostAddressBytes(std::string("192.0.2.1\0x", 11)));
}

}  // namespace
}  // namespace atl::netpolicy
