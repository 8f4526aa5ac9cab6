#include "runtime/sandbox/state/registry.h"

#include <gtest/gtest.h>

#include "runtime/base/sandbox_id.h"

namespace atl::sandbox {
namespace {

Sandbox Of(const std::string& tenant, State state = State::kRunning) {
  Sandbox sandbox;
  sandbox.id = NewSandboxId();
  sandbox.tenant = tenant;
  sandbox.state = state;
  return sandbox;
}

TEST(Registry, ACallerFindsTheSandboxesOfItsTenant) {
  Registry registry("/run", 0);
  const std::string plain = registry.Add(Of("")).id;
  const std::string theirs = registry.Add(Of("them")).id;
  const tenants::Caller one_key, them{.tenant = "them"};
  EXPECT_NE(registry.Find(one_key, plain), nullptr);
  EXPECT_EQ(registry.Find(one_key, theirs), nullptr);
  EXPECT_EQ(registry.Find(them, plain), nullptr);
  EXPECT_NE(registry.Find(them, theirs), nullptr);
  EXPECT_EQ(registry.All(them).size(), 1U);
  EXPECT_EQ(registry.Get(one_key, theirs).error().code(), Code::kNotFound);
  for (const std::string& id : {plain, theirs}) {
    EXPECT_NE(registry.Find(tenants::Caller::Daemon(), id), nullptr);
  }
}

TEST(Registry, WhatIsRemovedIsGoneForItsTenantAlone) {
  Registry registry("/run", 0);
  const std::string id = registry.Add(Of("them", State::kStopping)).id;
  EXPECT_EQ(registry.Find(tenants::Caller{.tenant = "them"}, id), nullptr);
  EXPECT_TRUE(registry.IsGone(tenants::Caller{.tenant = "them"}, id));
  EXPECT_FALSE(registry.IsGone(tenants::Caller(), id));
}

TEST(Registry, WhoeverKeepsSomethingOfASandboxHearsThatItGoes) {
  Registry registry("/run", 0);
  std::vector<std::string> removed;
  registry.OnRemove([&](const Sandbox& sandbox) { removed.push_back(sandbox.id); });
  Sandbox& first = registry.Add(Of(""));
  const std::string id = first.id;
  const std::string other = registry.Add(Of("")).id;
  registry.Remove(first);
  EXPECT_EQ(removed, std::vector{id});
  registry.Clear();
  EXPECT_EQ(removed, (std::vector{id, other}));
  EXPECT_EQ(registry.size(), 0U);
}

TEST(Registry, AnExchangeKeepsTheAddressAndMovesTheNames) {
  Registry registry("/run", 0);
  Sandbox& sandbox = registry.Add(Of(""));
  Sandbox next = sandbox;
  next.host_id = NewSandboxId();
  next.metadata = {{kName, "box"}};
  const Sandbox former = registry.Exchange(sandbox, next);
  EXPECT_EQ(former.host_id, "");
  EXPECT_EQ(registry.ByHost(next.host_id), &sandbox);
  EXPECT_EQ(registry.ByHost(sandbox.id), nullptr);
  EXPECT_EQ(registry.SocketPathOf(sandbox.id), "/run/" + next.host_id + ".sock");
  Sandbox rival = Of("");
  rival.spec.unique_name = true;
  rival.metadata = {{kName, "box"}};
  EXPECT_EQ(registry.CheckName(rival).error().code(), Code::kAlreadyExists);
}

}  // namespace
}  // namespace atl::sandbox
