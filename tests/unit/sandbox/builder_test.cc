#include "runtime/sandbox/create/builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/create/access_token.h"
#include "runtime/sandbox/record/socket_path.h"
#include "runtime/wire/plan.h"

namespace atl::sandbox {
namespace {

bool Holds(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

Sandbox Described() {
  Sandbox s;
  s.id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
  s.slot = 7;
  s.layers = {3, 1};
  s.spec.entrypoint = {"sleep", "1"};
  s.access_token = "token";
  s.spec.limits.pids = 99;
  return s;
}

TEST(Plan, SaysWhoTheSandboxIs) {
  const netpolicy::SlotAddresses addresses{"10.200.0.7", "fd61::7", "10.200.0.0", "fd61::"};
  const wire::Plan plan = PlanOf(Described(), addresses);
  EXPECT_EQ(plan.id, Described().id);
  EXPECT_EQ(plan.slot, 7U);
  EXPECT_EQ(plan.layers, (std::vector<wire::LayerId>{3, 1}));
  EXPECT_EQ(plan.hostname, "3f2504e04f89");
  EXPECT_NE(plan.hosts.find("127.0.0.1\tlocalhost\n"), std::string::npos);
  EXPECT_NE(plan.hosts.find("10.200.0.7\t3f2504e04f89\n"), std::string::npos);
  EXPECT_NE(plan.hosts.find("fd61::7\t3f2504e04f89\n"), std::string::npos);
  EXPECT_EQ(plan.resolv_conf, "nameserver 10.200.0.0\n");
  EXPECT_EQ(plan.limits.pids, 99U);
}

TEST(StartMessage, RequestBeatsImage) {
  Sandbox s = Described();
  s.spec.env = {{"LANG", "de"}, {"NEW", "1"}, {"OPENSANDBOX_ID", "mine"}};
  s.spec.hooks = {{"sync", "@hourly", {"true"}, 60}};
  s.config.env = {"PATH=/image", "LANG=C", "malformed", "OPENSANDBOX_ID=the snapshot's source"};
  s.config.working_dir = "/srv";
  s.config.user = "app:app";
  s.config.volumes = {"/data"};
  s.config.stop_signal = "SIGQUIT";
  const wire::StartMessage message = StartMessageOf(s);
  EXPECT_EQ(message.env.size(), 4U);
  EXPECT_TRUE(Holds(message.env, "OPENSANDBOX_ID=" + s.id));
  EXPECT_TRUE(Holds(message.env, "PATH=/image"));
  EXPECT_TRUE(Holds(message.env, "LANG=de"));
  EXPECT_TRUE(Holds(message.env, "NEW=1"));
  EXPECT_EQ(message.cwd, "/srv");
  EXPECT_EQ(message.user, "app:app");
  EXPECT_EQ(message.directories, s.config.volumes);
  EXPECT_EQ(message.stop_signal, static_cast<uint32_t>(SIGQUIT));
  EXPECT_EQ(message.argv, s.spec.entrypoint);
  EXPECT_EQ(message.hooks, s.spec.hooks);
  EXPECT_EQ(message.access_token, "token");
}

TEST(StartMessage, ThereIsAlwaysAPath) {
  const wire::StartMessage message = StartMessageOf(Described());
  ASSERT_EQ(message.env.size(), 2U);
  EXPECT_TRUE(message.env[0].starts_with("PATH=/usr/local/sbin:"));
}

TEST(AccessToken, UrlSafeAndNeverTheSame) {
  const std::string token = NewAccessToken();
  EXPECT_EQ(token.size(), 43U);
  EXPECT_EQ(
      token.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      std::string::npos);
  EXPECT_NE(token, NewAccessToken());
}

TEST(SocketPath, TheLongestDirectoryFits) {
  EXPECT_EQ(SocketPath(std::string(kMaxSocketDirectory, 'd'), NewSandboxId()).size(), 107U);
}

}  // namespace
}  // namespace atl::sandbox
