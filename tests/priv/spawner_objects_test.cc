// Buckets: the errors of their servers, the names of their groups, and the requests of a
// compromised daemon.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/spawner/buckets/object_error.h"
#include "runtime/spawner/buckets/object_group.h"
#include "runtime/wire/spawner.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

using spawner::ObjectError;
using spawner::ObjectKey;

Error Says(const std::string& log, const wire::ObjectCredentials& hidden = {"KEY", "secret"}) {
  return ObjectError(log, *wire::ParseObjectStore("main https://s3.example bucket=data"), "data",
                     hidden);
}

PRIV_TEST(ObjectError, WhatAClientIsTold) {
  EXPECT_EQ(Says("s3fs: invalid credentials(host=x) - result of checking service.\n").code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(Says("s3fs: bucket or key not found(host=x)\n").code(), Code::kNotFound);
  EXPECT_EQ(Says("s3fs: unable to connect bucket and timeout\n").code(), Code::kDeadlineExceeded);
  const Error other = Says("first\n[CRT] odd\x01 words\n\n");
  EXPECT_EQ(other.code(), Code::kInternal);
  EXPECT_TRUE(other.message().ends_with("s3fs says: [CRT] odd? words")) << other.message();
  EXPECT_TRUE(Says("").message().ends_with("s3fs ended without a word"));
  for (const char* full : {"s3fs: There is no enough disk space for used as cache(or temporary) "
                           "directory by s3fs.\n",
                           "mkdir scratch: No space left on device\n"}) {
    EXPECT_EQ(Says(full).error_number(), ENOSPC);
  }
  EXPECT_LT(Says(std::string(100000, 'x')).message().size(), 400U);
}

PRIV_TEST(ObjectError, CredentialsAreNotInIt) {
  for (const char* log : {"it has KEY:secret", "secretsecret", "KEY"}) {
    const std::string message = Says(log).message();
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    EXPECT_EQ(message.find("KEY"), std::string::npos) << message;
  }
  // The message must not contain half a secret either, at the place where the line is cut.
  EXPECT_EQ(Says(std::string(297, 'x') + "secret").message().find("xsec"), std::string::npos);
  // The replacement may itself equal a secret.
  EXPECT_TRUE(Says("a*b", {"*", "*"}).message().ends_with("b"));
}

PRIV_TEST(ObjectGroup, Names) {
  EXPECT_EQ(spawner::ObjectGroup({17, 3}), "m17-3");
  EXPECT_EQ(spawner::ParseObjectGroup("m17-3"), ObjectKey(17, 3));
  for (const char* name : {"", "m", "s17", "m17", "m17-", "m-3", "m017-3", "m17-03", "m0-0",
                           "m+1-1", "m4096-0", "m1-64", "m99999999999-1", "m1-1x", "m1-1-1"}) {
    EXPECT_FALSE(spawner::ParseObjectGroup(name)) << name;
  }
}

wire::Volume Bucket(const std::string& source) {
  wire::Volume volume;
  volume.kind = wire::Volume::Kind::kObjects;
  volume.source = source;
  volume.target = "/data";
  return volume;
}

std::string Said(const Status& mounted) {
  return std::string(mounted ? "mounted" : CodeName(mounted.error().code()));
}

// Returns the spawner's answer to a request.
std::string Asked(SpawnerFixture& spawner, const wire::MountObjects& wish) {
  std::string said;
  spawner.client().Ask(wish, [&](const Status& mounted) { said = Said(mounted); });
  spawner.loop().RunUntil([&] { return !said.empty(); });
  return said;
}

// An object store that accepts connections and never answers.
class SilentStore {
 public:
  SilentStore() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(fd_.get(), any, size), 0);
    EXPECT_EQ(::listen(fd_.get(), 256), 0);
    EXPECT_EQ(::getsockname(fd_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  // Returns flags for a spawner. `line` is the operator's rule.
  std::vector<std::string> Flags(const std::string& line) const {
    return {"--objects", std::getenv("ATOLL_OBJECTS"), "--object-store",
            "main http://127.0.0.1:" + std::to_string(port_) + " " + line};
  }

 private:
  const UniqueFd fd_;
  uint16_t port_ = 0;
};

// The operator's line names one bucket and lends no keys.
PRIV_TEST(HostileDaemon, NoBucketBesideTheOperators) {
  const SilentStore store;
  SpawnerFixture spawner("ATOLL_START_AND_EXEC", {}, store.Flags("bucket=data"));
  ASSERT_TRUE(spawner.Prepare(1));
  const auto code = [&](const std::function<void(wire::MountObjects&)>& change) {
    wire::MountObjects wish{1, 0, Bucket("main/data"), {"KEY", "secret"}};
    wish.volume.own_credentials = true;
    change(wish);
    return Asked(spawner, wish);
  };
  EXPECT_EQ(code([](auto& wish) { wish.volume.source = "main/other"; }), "permission_denied");
  EXPECT_EQ(code([](auto& wish) { wish.volume.source = "other/data"; }), "permission_denied");
  EXPECT_EQ(code([](auto& wish) { wish.volume.source = "main/data:/x"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.source = "main/../data"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.source = "main"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.sub_path = "a:b"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.sub_path = "a\nb"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.sub_path = "/a"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.volume.kind = wire::Volume::Kind::kHost; }),
            "invalid_argument");
  // Each would add a line to the file with the keys.
  EXPECT_EQ(code([](auto& wish) { wish.credentials.secret = "a\nother:K:s"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.credentials.key = "other:K"; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.credentials = {}; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) { wish.index = wire::kMaxVolumes; }), "invalid_argument");
  EXPECT_EQ(code([](auto& wish) {
              wish.volume.own_credentials = false;
              wish.credentials = {};
            }),
            "failed_precondition");
  EXPECT_EQ(code([](auto& wish) { wish.slot = 2; }), "unavailable");
}

// Each bucket is a host process with memory of its own.
PRIV_TEST(HostileDaemon, NoMoreBucketsThanThereMayBe) {
  const SilentStore store;
  SpawnerFixture spawner("ATOLL_START_AND_EXEC", {}, store.Flags("bucket=data"));
  std::vector<std::string> answers;
  const auto ask = [&](uint32_t slot, uint32_t index) {
    wire::MountObjects wish{slot, index, Bucket("main/data"), {"KEY", "secret"}};
    wish.volume.own_credentials = true;
    spawner.client().Ask(wish, [&](const Status& mounted) { answers.push_back(Said(mounted)); });
  };
  for (uint32_t slot = 1; slot <= 5; ++slot) ASSERT_TRUE(spawner.Prepare(slot));
  for (uint32_t i = 0; i < wire::kMaxBuckets; ++i) ask(1, i);
  EXPECT_EQ(Asked(spawner, {1, wire::kMaxBuckets, Bucket("main/data"), {}}), "invalid_argument");
  // Two buckets cannot share one place either.
  EXPECT_EQ(Asked(spawner, {1, 0, Bucket("main/data"), {}}), "unavailable");
  for (uint32_t slot = 2; slot <= 4; ++slot) {
    for (uint32_t i = 0; i < wire::kMaxBuckets; ++i) ask(slot, i);
  }
  EXPECT_EQ(Asked(spawner, {5, 0, Bucket("main/data"), {}}), "unavailable");
  EXPECT_EQ(answers, std::vector<std::string>());
}

PRIV_TEST(HostileDaemon, BucketsAreTheOperators) {
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  const auto code = [&](uint32_t slot, const wire::Volume& volume,
                        const wire::ObjectCredentials& credentials) {
    return Asked(spawner, {slot, 0, volume, credentials});
  };
  wire::Volume volume = Bucket("main/data");
  // This spawner allows no store.
  EXPECT_EQ(code(1, volume, {}), "permission_denied");
  EXPECT_EQ(code(1, volume, {"KEY", "secret"}), "invalid_argument");
  EXPECT_EQ(code(2, volume, {}), "unavailable");
  EXPECT_EQ(code(0, volume, {}), "unavailable");
  EXPECT_EQ(code(0xffffffff, volume, {}), "unavailable");
  volume.sub_path = "../x";
  EXPECT_EQ(code(1, volume, {}), "invalid_argument");
  // A sandbox with a bucket that has not been mounted is not built either.
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  volume.sub_path = "";
  plan.volumes = {volume};
  EXPECT_FALSE(spawner.Build(plan));
}

}  // namespace
}  // namespace atl::priv
