// Buckets: the errors of what serves them, the names of its groups, and what a daemon that has been
// taken over asks for.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/spawner/object_error.h"
#include "runtime/spawner/object_group.h"
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
  EXPECT_TRUE(Says("").message().ends_with("cannot be mounted"));
  EXPECT_LT(Says(std::string(100000, 'x')).message().size(), 400U);
}

PRIV_TEST(ObjectError, CredentialsAreNotInIt) {
  for (const char* log : {"it has KEY:secret", "secretsecret", "KEY"}) {
    const std::string message = Says(log).message();
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    EXPECT_EQ(message.find("KEY"), std::string::npos) << message;
  }
  // Not half of one either, where the line is cut.
  EXPECT_EQ(Says(std::string(297, 'x') + "secret").message().find("xsec"), std::string::npos);
  // What stands for it may itself be one.
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

PRIV_TEST(HostileDaemon, BucketsAreTheOperators) {
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  const auto code = [&](uint32_t slot, const wire::Volume& volume,
                        const wire::ObjectCredentials& credentials) {
    std::string said;
    spawner.client().Ask(wire::MountObjects{slot, 0, volume, credentials}, [&](Status mounted) {
      said = mounted ? "mounted" : CodeName(mounted.error().code());
    });
    spawner.loop().RunUntil([&] { return !said.empty(); });
    return said;
  };
  wire::Volume volume;
  volume.kind = wire::Volume::Kind::kObjects;
  volume.source = "main/data";
  volume.target = "/data";
  // No store is allowed here.
  EXPECT_EQ(code(1, volume, {}), "permission_denied");
  EXPECT_EQ(code(1, volume, {"KEY", "secret"}), "invalid_argument");
  EXPECT_EQ(code(2, volume, {}), "unavailable");
  EXPECT_EQ(code(0, volume, {}), "unavailable");
  EXPECT_EQ(code(0xffffffff, volume, {}), "unavailable");
  volume.sub_path = "../x";
  EXPECT_EQ(code(1, volume, {}), "invalid_argument");
  // Nor is one built that has not been mounted.
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  volume.sub_path = "";
  plan.volumes = {volume};
  EXPECT_FALSE(spawner.Build(plan));
}

}  // namespace
}  // namespace atl::priv
