#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/wire/plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

VolumeMount Bucket(const std::string& endpoint = "https://s3.example",
                   const std::string& bucket = "data") {
  VolumeMount mount;
  mount.volume.kind = wire::Volume::Kind::kObjects;
  mount.volume.source = bucket;
  mount.volume.target = "/data";
  mount.bucket.endpoint = endpoint;
  return mount;
}

VolumeMount WithKeys(VolumeMount mount = Bucket()) {
  mount.volume.own_credentials = true;
  mount.bucket.credentials = {"KEY", "secret"};
  return mount;
}

class ObjectVolumesTest : public SandboxesTest {
 protected:
  static Wanted WantBucket(const VolumeMount& mount) {
    Wanted wanted = Want();
    wanted.spec.volumes = {mount.volume};
    wanted.mounts = {mount};
    return wanted;
  }
  bool TooMuch(const Wanted& wanted) {
    const auto answer = Create(wanted);
    return answer->called && !answer->result && answer->result.error().error_number() == ENOMEM;
  }
  std::string Running(const VolumeMount& mount) {
    const auto answer = Create(WantBucket(mount));
    spawner.AnswerMount();
    loop.Run();
    spawner.AnswerBuild();
    EXPECT_TRUE(answer->called && answer->result);
    return answer->result->id;
  }
};

TEST_F(ObjectVolumesTest, WhichStoreARequestMeans) {
  const ObjectVolumes several(
      spawner, {*wire::ParseObjectStore("one https://s3.example bucket=one credentials=/k"),
                *wire::ParseObjectStore("two https://s3.example bucket=data"),
                *wire::ParseObjectStore("three https://s3.example bucket=* credentials=/k")});
  const auto source = [&](const VolumeMount& mount) {
    const auto found = several.Resolve(tenants::Caller(), nullptr, {mount});
    return found ? found->front().source : std::string(CodeName(found.error().code()));
  };
  EXPECT_EQ(source(WithKeys()), "two/data");
  EXPECT_EQ(source(WithKeys(Bucket("one", "one"))), "one/one");
  // The request has no keys, so the first store that has some is used.
  EXPECT_EQ(source(Bucket()), "three/data");
  VolumeMount named = Bucket();
  named.bucket.credentials_of = "three";
  EXPECT_EQ(source(named), "three/data");
  named.bucket.credentials_of = "one";
  EXPECT_EQ(source(named), "failed_precondition");
  EXPECT_EQ(source(Bucket("two")), "failed_precondition");
  EXPECT_EQ(source(WithKeys(Bucket("one"))), "invalid_argument");
  EXPECT_EQ(source(WithKeys(Bucket("http://s3.example"))), "permission_denied");
  EXPECT_EQ(source(WithKeys(Bucket("https://other.example"))), "permission_denied");
}

TEST_F(ObjectVolumesTest, MountedBeforeTheBuild) {
  const auto answer = Create(WantBucket(WithKeys()));
  ASSERT_EQ(spawner.mounts.size(), 1U);
  EXPECT_TRUE(spawner.builds.empty());
  // A create that waits for a store takes no place in the queue of builds.
  Create();
  Create();
  EXPECT_EQ(spawner.builds.size(), 2U);
  spawner.AnswerBuild();
  spawner.AnswerBuild();
  const wire::MountObjects asked = spawner.AnswerMount();
  EXPECT_EQ(asked.volume.source, "store/data");
  EXPECT_EQ(asked.credentials, (wire::ObjectCredentials{"KEY", "secret"}));
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds.front().slot, asked.slot);
  EXPECT_EQ(spawner.builds.front().plan->volumes, std::vector<wire::Volume>{asked.volume});
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
}

TEST_F(ObjectVolumesTest, OneThatCannotBeMountedLeavesNothing) {
  const auto answer = Create(WantBucket(WithKeys()));
  const wire::MountObjects asked =
      spawner.AnswerMount(Fail(Code::kFailedPrecondition, "not these keys"));
  loop.Run();
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(answer->result.error().message(), "not these keys");
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(spawner.dropped, std::vector<uint32_t>{asked.slot});
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_TRUE(Stored().empty());
}

TEST_F(ObjectVolumesTest, WhatIsNotAllowedIsNotAskedFor) {
  EXPECT_EQ(Create(WantBucket(Bucket("https://evil.example")))->result.error().code(),
            Code::kPermissionDenied);
  EXPECT_TRUE(spawner.mounts.empty());
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

// The server of a bucket uses memory of this host, too.
TEST_F(ObjectVolumesTest, TheHostsMemoryIsPromisedOnce) {
  config.budget.memory_budget = 300 << 20;
  Boot({});
  Wanted wanted = WantBucket(WithKeys());
  wanted.resource_limits = {{"memory", "100Mi"}};
  Wanted plain = Want();
  plain.resource_limits = {{"memory", "73Mi"}};
  // It reserves 228 MiB.
  const auto first = Create(wanted);
  EXPECT_TRUE(TooMuch(plain));
  plain.resource_limits = {{"memory", "72Mi"}};
  CreateRunning(plain);
  EXPECT_TRUE(TooMuch(wanted));
  // The memory is released with the sandbox.
  spawner.AnswerMount(Fail(Code::kFailedPrecondition, "not these keys"));
  loop.Run();
  ASSERT_TRUE(first->called);
  Create(wanted);
  EXPECT_EQ(spawner.mounts.size(), 1U);
}

// The same for processes.
TEST_F(ObjectVolumesTest, ItsProcessesArePromisedOnce) {
  config.budget.pids_budget = 512 + wire::kBucketPids;
  Boot({});
  const auto first = Create(WantBucket(WithKeys()));
  EXPECT_FALSE(first->called);
  config.budget.pids_budget -= 1;
  Boot({});
  EXPECT_TRUE(TooMuch(WantBucket(WithKeys())));
}

// Neither the record nor a restart keeps a request's credentials.
TEST_F(ObjectVolumesTest, CredentialsOfARequestAreKeptInMemoryAlone) {
  const std::string id = Running(WithKeys());
  EXPECT_TRUE(objects.Check(*sandboxes->registry.Find(kCaller, id)));
  const std::vector<Sandbox> stored = Stored();
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_TRUE(stored[0].spec.volumes[0].own_credentials);
  const ObjectVolumes next(spawner,
                           {*wire::ParseObjectStore("store https://s3.example bucket=data")});
  const Status forgotten = next.Check(stored[0]);
  ASSERT_FALSE(forgotten);
  EXPECT_EQ(forgotten.error().code(), Code::kFailedPrecondition);

  Sandbox child = stored[0];
  child.id = "child";
  EXPECT_FALSE(objects.Check(child));
  objects.Share(id, child.id);
  EXPECT_TRUE(objects.Check(child));
  objects.Forget(id);
  EXPECT_FALSE(objects.Check(stored[0]));
  EXPECT_TRUE(objects.Check(child));
}

TEST_F(ObjectVolumesTest, ByReferenceNothingIsKept) {
  const auto answer = Create(WantBucket(Bucket()));
  EXPECT_EQ(spawner.AnswerMount().credentials, wire::ObjectCredentials());
  loop.Run();
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  const ObjectVolumes next(spawner, {});
  EXPECT_TRUE(next.Check(*sandboxes->registry.Find(kCaller, answer->result->id)));
}

TEST_F(ObjectVolumesTest, ALostOneIsToldOnce) {
  const std::string id = Running(WithKeys());
  const auto told = [&] {
    size_t times = 0;
    const auto events = history->Find(id);
    for (const HistoryEvent& event : *events) times += event.kind == kVolumeLost ? 1 : 0;
    return times;
  };
  sandboxes->lost_volumes.OnLost({"nobody", 0});
  sandboxes->lost_volumes.OnLost({id, 1});
  EXPECT_EQ(told(), 0U);
  sandboxes->lost_volumes.OnLost({id, 0});
  sandboxes->lost_volumes.OnLost({id, 0});
  EXPECT_EQ(told(), 1U);
}

}  // namespace
}  // namespace atl::sandbox
