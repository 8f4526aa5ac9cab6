#include "runtime/wire/vm.h"

#include <gtest/gtest.h>

#include <functional>

namespace atl::wire::vm {
namespace {

Go Sample() {
  Go go;
  go.hostname = "box";
  go.mac = std::string("\x02\0\x0a\xfa\x01\x02", 6);
  go.mtu = 1500;
  go.addresses = {std::string("\x0a\xfa\0\x02", 4), std::string(16, '\xfd')};
  go.gateways = {std::string("\x0a\xfa\0\x01", 4)};
  go.neighbours = {{std::string("\x0a\xfa\0\x01", 4), std::string(6, '\x02')}};
  go.root = {"root", "root", "/", false};
  go.sessions = "sessions";
  go.shares = {{"data", "", "/mnt/data", true}};
  go.nofile = 1024;
  go.pids = 100;
  go.shm_bytes = 64 << 20;
  go.capabilities = 0x1ff;
  return go;
}

std::string Content(std::string_view frame) {
  return std::string(frame.substr(4));
}

bool Accepts(const Go& go) {
  return DecodeToGuest(Content(EncodeToGuest(go))).has_value();
}

// A change of the sample that must be refused.
void Refuses(const char* what, const std::function<void(Go&)>& change) {
  Go go = Sample();
  change(go);
  EXPECT_FALSE(Accepts(go)) << what;
}

TEST(WireVm, AMessageComesBackAsItWasSent) {
  const std::string sent = EncodeToGuest(Sample());
  const auto read = DecodeToGuest(Content(sent));
  ASSERT_TRUE(read);
  EXPECT_EQ(EncodeToGuest(*read), sent);
  EXPECT_EQ(std::get<Go>(*read).shares, Sample().shares);
  EXPECT_EQ(std::get<Go>(*read).addresses, Sample().addresses);
  const auto sync = DecodeToGuest(Content(EncodeToGuest(Sync{7})));
  ASSERT_TRUE(sync);
  EXPECT_EQ(std::get<Sync>(*sync).number, 7U);
  const auto ended = DecodeFromGuest(Content(EncodeFromGuest(Ended{143})));
  ASSERT_TRUE(ended);
  EXPECT_EQ(std::get<Ended>(*ended).exit_code, 143U);
}

// The guest must not be able to speak with the words of the host.
TEST(WireVm, EachDirectionHasItsOwnMessages) {
  EXPECT_FALSE(DecodeFromGuest(Content(EncodeToGuest(Sync{1}))));
  EXPECT_FALSE(DecodeFromGuest(Content(EncodeToGuest(Stop{}))));
  EXPECT_FALSE(DecodeToGuest(Content(EncodeFromGuest(Ready{}))));
}

TEST(WireVm, RefusesBytesThatAreNoMessage) {
  const std::string whole = Content(EncodeToGuest(Sample()));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeToGuest(whole.substr(0, size))) << size;
  }
  EXPECT_FALSE(DecodeToGuest(whole + "x"));
  EXPECT_FALSE(DecodeFromGuest(""));
  EXPECT_FALSE(DecodeFromGuest("\xff"));
}

TEST(WireVm, TheGuestsValuesHaveLimits) {
  EXPECT_FALSE(DecodeFromGuest(Content(EncodeFromGuest(Ended{256}))));
  const std::string longest(kMaxFailure, 'x');
  const auto failed = DecodeFromGuest(Content(EncodeFromGuest(Failed{longest + "y"})));
  ASSERT_TRUE(failed);
  EXPECT_EQ(std::get<Failed>(*failed).message, longest);
  EXPECT_FALSE(DecodeFromGuest(EncodeFields(FromGuest(Failed{longest + "y"}))));
}

TEST(WireVm, RefusesNonsenseInGo) {
  ASSERT_TRUE(Accepts(Sample()));
  Refuses("no hostname", [](Go& go) { go.hostname.clear(); });
  Refuses("no directory for sessions", [](Go& go) { go.sessions.clear(); });
  Refuses("directory for sessions", [](Go& go) { go.sessions = "a/b"; });
  Refuses("hostname", [](Go& go) { go.hostname = "a/b"; });
  Refuses("mac", [](Go& go) { go.mac.pop_back(); });
  Refuses("mtu", [](Go& go) { go.mtu = 100; });
  Refuses("addresses without a device", [](Go& go) { go.mac.clear(), go.mtu = 0; });
  Refuses("length of an address", [](Go& go) { go.addresses[0] += 'x'; });
  Refuses("gateway", [](Go& go) { go.gateways[0].clear(); });
  Refuses("three gateways", [](Go& go) { go.gateways.assign(3, go.gateways[0]); });
  Refuses("mac of a neighbour", [](Go& go) { go.neighbours[0].mac.clear(); });
  Refuses("neighbours", [](Go& go) { go.neighbours.resize(kMaxAddresses + 1, go.neighbours[0]); });
  Refuses("root elsewhere", [](Go& go) { go.root.target = "/root"; });
  Refuses("share on the root", [](Go& go) { go.shares[0].target = "/"; });
  Refuses("no tag", [](Go& go) { go.shares[0].tag.clear(); });
  Refuses("tag", [](Go& go) { go.root.tag.assign(37, 'x'); });
  Refuses("shares", [](Go& go) { go.shares.resize(kMaxShares + 1, go.shares[0]); });
  Refuses("nofile", [](Go& go) { go.nofile = (1 << 20) + 1; });
  for (const char* path : {"", "x", "/a/../b", "/..", "/a/.", "/a//b", "/a/"}) {
    Refuses(path, [path](Go& go) { go.shares[0].target = path; });
  }
  for (const char* name : {"..", ".", "a/b"}) {
    Refuses(name, [name](Go& go) { go.root.directory = name; });
  }
}

}  // namespace
}  // namespace atl::wire::vm
