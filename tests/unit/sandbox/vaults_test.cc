#include "runtime/sandbox/live/vaults.h"

#include <gtest/gtest.h>

#include "netpolicy/policy/policy_json.h"
#include "netpolicy/vault/document_json.h"
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
  FakeNetwork network_;
  Sandbox sandbox_;
};

TEST_F(VaultsTest, FollowTheirSandboxFromSlotToSlot) {
  // A program that runs and never reports that it is ready.
  Vaults vaults(loop_, network_, {"/bin/sleep", "1000"});
  int answers = 0;
  vaults.Set(sandbox_, VaultFor("a.example"), [&](const Status&) { ++answers; });
  ASSERT_NE(At(1), nullptr);
  EXPECT_TRUE(At(1)->Wants("a.example", true, 443));
  EXPECT_FALSE(At(1)->Wants("a.example", false, 80)) << "https alone";
  EXPECT_FALSE(At(1)->Wants("a.example", true, 80)) << "not at another port";
  EXPECT_FALSE(At(1)->Wants("b.example", true, 443));
  const std::weak_ptr<netpolicy::Interceptor> held = network_.interceptors[1];
  vaults.Attach("s", 2);
  EXPECT_EQ(At(2), At(1));
  // A sandbox does not get the vault of an earlier sandbox in its slot.
  vaults.Attach("other", 1);
  EXPECT_EQ(At(1), nullptr);
  vaults.Remove("s");
  EXPECT_EQ(At(2), nullptr);
  EXPECT_EQ(vaults.Find("s"), nullptr);
  EXPECT_EQ(answers, 0);
  EXPECT_TRUE(held.expired()) << "and its process with it, though it has not answered";
}

TEST_F(VaultsTest, WithoutTheirProgramThereAreNone) {
  Vaults vaults(loop_, network_, {"/nonexistent", ""});
  Status set;
  vaults.Set(sandbox_, VaultFor("a.example"), [&](const Status& status) { set = status; });
  EXPECT_FALSE(set);
  EXPECT_EQ(At(1), nullptr);
  EXPECT_EQ(vaults.Find("s"), nullptr);
  loop_.Run();
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
