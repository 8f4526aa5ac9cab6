#include "runtime/wire/session.h"

#include <gtest/gtest.h>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::wire {
namespace {

using Kind = SessionMount::Kind;

SessionSpec GoodSession() {
  SessionSpec spec;
  spec.number = 1;
  spec.mounts = {{Kind::kOverlay, "/workspace", "/workspace"}};
  return spec;
}

TEST(WireSession, AsMuchAsThereMayBeFitsIntoOneMessage) {
  SessionSpec spec = GoodSession();
  const std::string path = "/" + std::string(kMaxSessionPath - 1, 'x');
  spec.mounts.assign(kMaxSessionMounts, {Kind::kReadOnly, path, path});
  EXPECT_LE(EncodeFields(Request{1, MakeSession{.id = std::string(64, 'x'), .spec = spec}}).size(),
            kMaxSpawnerMessage);
  SessionRequest request;
  request.what = SessionRequest::Make{.spec = spec};
  EXPECT_LE(EncodeFields(request).size(), kMaxSessionRequest);
}

// A term is within the bounds of a sandbox's limit, or absent.
TEST(WireSession, TermsAreWithinTheBoundsOfLimits) {
  EXPECT_TRUE(CheckForm(SessionTerms{}));
  EXPECT_FALSE(SessionTerms{}.limited());
  EXPECT_TRUE(CheckForm(SessionTerms{.memory_bytes = 6 << 20, .pids = 8, .cpu_millis = 10}));
  for (const SessionTerms& terms :
       {SessionTerms{.memory_bytes = 1 << 20}, SessionTerms{.memory_bytes = UINT64_MAX},
        SessionTerms{.pids = 7}, SessionTerms{.pids = UINT64_MAX}, SessionTerms{.cpu_millis = 9},
        SessionTerms{.cpu_millis = UINT64_MAX}}) {
    EXPECT_TRUE(terms.limited());
    EXPECT_FALSE(CheckForm(terms));
    EXPECT_FALSE(CheckForm(MakeSession{.id = "a", .spec = GoodSession(), .terms = terms}));
  }
}

TEST(WireSession, IdsAreIds) {
  EXPECT_TRUE(CheckForm(SessionUser{.uid = UINT32_MAX - 1}));
  for (const SessionUser& user :
       {SessionUser{.uid = UINT32_MAX}, SessionUser{.gid = UINT32_MAX},
        SessionUser{.sandbox_uid = UINT32_MAX}, SessionUser{.sandbox_gid = UINT32_MAX}}) {
    EXPECT_FALSE(CheckForm(MakeSession{.id = "a", .spec = GoodSession(), .user = user}));
  }
}

TEST(WireSession, FormIsChecked) {
  EXPECT_TRUE(CheckForm(GoodSession()));
  for (const uint32_t number : {uint32_t{0}, kMaxSessions + 1, UINT32_MAX}) {
    SessionSpec spec = GoodSession();
    spec.number = number;
    EXPECT_FALSE(CheckForm(spec)) << number;
    EXPECT_FALSE(CheckForm(EndSession{.id = "a", .number = number})) << number;
  }
  const std::string nul("/a\0b", 4);
  for (const std::string& path :
       {std::string(""), std::string("/"), std::string("a"), std::string("/a/"), std::string("//a"),
        std::string("/a/../b"), std::string("/."), nul, "/" + std::string(kMaxSessionPath, 'a')}) {
    SessionSpec source = GoodSession(), target = GoodSession();
    source.mounts[0].source = path;
    target.mounts[0].target = path;
    EXPECT_FALSE(CheckForm(source)) << path;
    EXPECT_FALSE(CheckForm(target)) << path;
    EXPECT_FALSE(CheckForm(MakeSession{.id = "a", .spec = target})) << path;
  }
  for (const char* own : {"/dev", "/dev/shm/x", "/proc/self", "/sys"}) {
    SessionSpec spec = GoodSession();
    spec.mounts[0].target = own;
    EXPECT_FALSE(CheckForm(spec)) << own;
  }
  SessionSpec twice = GoodSession();
  twice.mounts.push_back({Kind::kReadOnly, "/other", "/workspace"});
  EXPECT_FALSE(CheckForm(twice));
  SessionSpec many = GoodSession();
  for (size_t i = 0; i < kMaxSessionOverlays; ++i) {
    many.mounts.push_back({Kind::kScratch, "/x", "/x" + std::to_string(i)});
  }
  EXPECT_FALSE(CheckForm(many));
}

// The daemon reads either a complete request of execd's with its two sockets, or nothing.
TEST(WireSession, RequestsComeWithTheirDescriptorsOrNotAtAll) {
  SessionRequest make, mapped, plain, end, forget;
  make.what = SessionRequest::Make{.spec = GoodSession()};
  // Requests of a sandbox from before there were terms.
  plain.what = SessionRequest::MakePlain{.spec = GoodSession()};
  mapped.what = SessionRequest::MakeMapped{.spec = GoodSession()};
  end.what = SessionRequest::End{.number = 3};
  forget.what = SessionRequest::Forget{};
  for (size_t count = 0; count < 4; ++count) {
    for (const SessionRequest* request : {&make, &mapped, &plain, &end, &forget}) {
      std::vector<UniqueFd> descriptors(count);
      SessionRequest read;
      const size_t wanted = request == &end || request == &forget ? 0 : 2;
      EXPECT_EQ(DecodeFields(EncodeFields(*request), &read, descriptors), count == wanted);
    }
  }
}

TEST(WireSession, UppersAreAsManyAsTheirDescriptors) {
  for (const size_t count : {size_t{0}, size_t{1}, kMaxSessionOverlays, kMaxSessionOverlays + 1}) {
    SessionUppers uppers;
    uppers.directories.resize(count);
    const std::string bytes = EncodeFields(uppers);
    for (const size_t came : {count, count + 1}) {
      std::vector<UniqueFd> descriptors(came);
      SessionUppers read;
      EXPECT_EQ(DecodeFields(bytes, &read, descriptors),
                came == count && count <= kMaxSessionOverlays);
    }
  }
}

}  // namespace
}  // namespace atl::wire
