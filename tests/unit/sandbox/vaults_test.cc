#include "runtime/sandbox/live/vaults.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "netpolicy/intercept/line.h"
#include "netpolicy/policy/policy_json.h"
#include "netpolicy/vault/document_json.h"
#include "runtime/base/sys.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

vault::Vault VaultFor(const std::string& host) {
  auto vault = vault::ParseVault(
      R"({"credentials": [{"name": "k", "source": {"value": "v"}}], "bindings": [{"name": "b",)"
      R"("match": {"hosts": [")" +
      host + R"("]}, "auth": {"type": "bearer", "credential": "k"}}]})");
  EXPECT_TRUE(vault) << vault.error().message();
  return *std::move(vault);
}

std::shared_ptr<const netpolicy::Egress> EgressOf(const std::string& policy) {
  return *netpolicy::Egress::Make(netpolicy::Share(*netpolicy::ParsePolicy(policy)), {}, {},
                                  nullptr);
}

class VaultsTest : public testing::Test {
 protected:
  VaultsTest() {
    sandbox_.id = "s";
    sandbox_.slot = 1;
    sandbox_.authority = {"certificate", "key", "00000000.0"};
  }
  netpolicy::Interceptor* At(uint32_t slot) { return network_.interceptors[slot].get(); }

  FakeClock clock_;
  FakeLoop loop_{clock_};
  FakeSpawner spawner_{loop_};
  FakeNetwork network_;
  Sandbox sandbox_;
};

TEST_F(VaultsTest, FollowTheirSandboxFromSlotToSlot) {
  Vaults vaults(loop_, network_, spawner_, "/dev/null");
  int answers = 0;
  vaults.Set(sandbox_, VaultFor("a.example"), [&](const Status&) { ++answers; });
  ASSERT_NE(At(1), nullptr);
  EXPECT_TRUE(At(1)->Wants("a.example", true, 443));
  EXPECT_FALSE(At(1)->Wants("a.example", false, 80)) << "https alone";
  EXPECT_FALSE(At(1)->Wants("a.example", true, 80)) << "not at another port";
  EXPECT_FALSE(At(1)->Wants("b.example", true, 443));
  const std::weak_ptr<netpolicy::Interceptor> held = network_.interceptors[1];
  ASSERT_EQ(spawner_.interceptors.size(), 1U);
  EXPECT_EQ(spawner_.interceptors[0].first.slot, 1U);
  vaults.Attach("s", 2);
  EXPECT_EQ(At(2), At(1));
  // The process is charged to the group of its slot, which goes.
  ASSERT_EQ(spawner_.interceptors.size(), 2U);
  EXPECT_EQ(spawner_.interceptors[1].first.slot, 2U);
  // A sandbox does not get the vault of an earlier sandbox in its slot.
  vaults.Attach("other", 1);
  EXPECT_EQ(At(1), nullptr);
  vaults.Remove("s");
  EXPECT_EQ(At(2), nullptr);
  EXPECT_EQ(vaults.Find("s"), nullptr);
  EXPECT_EQ(answers, 0);
  EXPECT_TRUE(held.expired()) << "and its process with it, though it has not answered";
}

netpolicy::InterceptedConnection Connection() {
  return {.name = "a.example",
          .tls = true,
          .client = *sys::Open("/dev/null", O_RDONLY),
          .server = *sys::Open("/dev/null", O_RDONLY)};
}

// Reads one message of the daemon to an interceptor.
intercept::Message Read(int line) {
  auto packet = *sys::ReceiveMessage(line, intercept::kMaxMessage);
  intercept::Message message;
  EXPECT_TRUE(wire::DecodeFields(packet.bytes, &message, packet.fds));
  return message;
}

TEST_F(VaultsTest, AreInForceWhenTheirProcessIsReady) {
  Vaults vaults(loop_, network_, spawner_, "/dev/null");
  std::vector<Status> set;
  vaults.Set(sandbox_, VaultFor("a.example"), [&](const Status& status) { set.push_back(status); });
  auto [asked, answer] = std::move(spawner_.interceptors.at(0));
  EXPECT_EQ(std::get<intercept::Begin>(Read(asked.line.get()).value).authority, sandbox_.authority);
  EXPECT_TRUE(std::holds_alternative<intercept::SetVault>(Read(asked.line.get()).value));
  answer(wire::Interceptor{*sys::Open("/dev/null", O_RDONLY)});
  EXPECT_TRUE(set.empty());
  ASSERT_TRUE(sys::SendMessage(asked.line.get(), intercept::kReady));
  loop_.Poll();
  ASSERT_EQ(set.size(), 1U);
  EXPECT_TRUE(set[0]);
  EXPECT_EQ(loop_.timers(), 0U);
  // The sandbox's next version has the vault, and the next connection starts its process.
  vaults.Attach("s", 2);
  EXPECT_EQ(spawner_.interceptors.size(), 1U);
  ASSERT_TRUE(At(2)->Take(Connection()));
  ASSERT_EQ(spawner_.interceptors.size(), 2U);
  EXPECT_EQ(spawner_.interceptors[1].first.slot, 2U);
}

TEST_F(VaultsTest, WithoutTheirProcessThereAreNone) {
  // A spawner that refuses, a process that ends at once, one that is never ready, and no spawner.
  for (int how = 0; how < 4; ++how) {
    Vaults vaults(loop_, network_, spawner_, "/dev/null");
    std::vector<Status> set;
    vaults.Set(sandbox_, VaultFor("a.example"),
               [&](const Status& status) { set.push_back(status); });
    auto [asked, answer] = std::move(spawner_.interceptors.at(0));
    spawner_.interceptors.clear();
    if (how != 2) asked.line.reset();
    loop_.Poll();
    EXPECT_TRUE(set.empty()) << "the spawner's answer says why";
    if (how == 0) answer(Fail(Code::kFailedPrecondition, "no sandbox"));
    if (how == 3) answer(Fail(Code::kUnavailable, "no spawner"));
    if (how == 1 || how == 2) answer(wire::Interceptor{*sys::Open("/dev/null", O_RDONLY)});
    if (how == 2) loop_.Pass(30'000'000);
    ASSERT_EQ(set.size(), 1U) << how;
    EXPECT_EQ(set[0].error().code(), how == 3 ? Code::kUnavailable : Code::kFailedPrecondition)
        << "only the next spawner is worth a wait";
    EXPECT_EQ(set[0].error().message().ends_with("no sandbox"), how == 0);
    EXPECT_EQ(At(1), nullptr);
    EXPECT_EQ(vaults.Find("s"), nullptr);
    loop_.Run();
  }
}

TEST_F(VaultsTest, AreCoveredByThePolicy) {
  const std::string allow =
      R"({"defaultAction": "deny", "egress": [{"action": "allow", "target": )";
  EXPECT_TRUE(CheckCovered(VaultFor("a.example"), *EgressOf(allow + R"("a.example"}]})")));
  EXPECT_TRUE(CheckCovered(VaultFor("*.a.example"), *EgressOf(allow + R"("*.a.example"}]})")));
  EXPECT_TRUE(CheckCovered(vault::Vault(), *EgressOf(R"({"defaultAction": "allow"})")));
  const auto refused = [&](const std::string& host, const std::string& policy) {
    const Status covered = CheckCovered(VaultFor(host), *EgressOf(policy));
    return covered ? "" : covered.error().message();
  };
  EXPECT_NE(refused("b.example", allow + R"("a.example"}]})").find("b.example"), std::string::npos);
  EXPECT_NE(refused("a.example", allow + R"("a.example", "ports": [80]}]})"), "");
  // The daemon reads no names if the policy has no rule for a name.
  EXPECT_NE(refused("a.example", R"({"defaultAction": "allow"})").find("has no rule for one"),
            std::string::npos);
}

}  // namespace
}  // namespace atl::sandbox
