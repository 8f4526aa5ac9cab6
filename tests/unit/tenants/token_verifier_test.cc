#include "runtime/tenants/token_verifier.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"
#include "tests/unit/tenants/token_keys.h"

namespace atl::tenants {
namespace {

class TokenVerifierTest : public testing::Test {
 protected:
  TokenVerifierTest() {
    clock.unix_ms = kNow * 1000;
    verifier = std::make_unique<TokenVerifier>(
        loop, clock, TokenVerifier::Settings{.secret = "secret", .max_stale_seconds = 300},
        [this](const std::string& address) -> Result<std::string> {
          asked.push_back(address);
          return answer;
        });
    verifier->OnEnd([this](const std::string& id) { ended.push_back(id); });
    verifier->SetRules({{"red", Rule("team-red", Role::kDeveloper)},
                        {"red", Rule("operators", Role::kOperator)},
                        {"blue", Rule("team-blue", Role::kViewer)}});
  }
  static OidcRule Rule(const std::string& group, Role role) {
    return {.issuer = kIssuer,
            .audience = "atoll",
            .jwks = "https://idp.example/jwks",
            .when = {{"groups", group}},
            .role = role};
  }
  // Returns "TENANT ROLE", or the number of the denial.
  std::string Ask(const std::string& token, bool may_ask = true) {
    std::string told = "nothing";
    verifier->Authenticate(token, may_ask, [&](const Authenticated& identity) {
      told = identity ? identity->tenant + " " + RoleName(identity->role)
                      : "denied " + std::to_string(static_cast<int>(identity.error()));
      if (identity) key_id = identity->key_id;
    });
    loop.Run();
    return told;
  }
  static std::string Denied(Denial denial) {
    return "denied " + std::to_string(static_cast<int>(denial));
  }
  void Pass(int64_t seconds) { loop.Pass(seconds * 1'000'000); }

  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
  std::vector<std::string> asked;
  Result<std::string> answer = KeySetText();
  std::vector<std::string> ended;
  std::string key_id;
  std::unique_ptr<TokenVerifier> verifier;
};

TEST_F(TokenVerifierTest, ClaimsLeadToTenantAndRole) {
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), "red developer");
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", "team-blue"))), "blue viewer");
  EXPECT_EQ(Ask(Ec().Sign(With("groups", {"operators"}))), " operator");
  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) many.push_back("group-" + std::to_string(i));
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", many))), Denied(Denial::kUnknown));
  many.back() = "team-red";
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", many))), "red developer");
  many.push_back("one-more");
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", many))), Denied(Denial::kUnknown));
  // The rules have an order.
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", {"team-blue", "team-red"}))), "red developer");
  EXPECT_EQ(Ask(Rsa().Sign(Without("groups"))), Denied(Denial::kUnknown));
  EXPECT_EQ(Ask(Rsa().Sign(With("groups", {{"team-red", true}}))), Denied(Denial::kUnknown));
  EXPECT_EQ(Ask(Rsa().Sign(With("aud", "other"))), Denied(Denial::kUnknown));
  // Compared byte by byte, the slash at the end included.
  EXPECT_EQ(Ask(Rsa().Sign(With("iss", std::string(kIssuer) + "/"))), Denied(Denial::kUnknown));
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(TokenVerifierTest, UnknownKeyIdsCauseOneFetchInHalfAMinute) {
  Ask(Rsa().Sign(UsualClaims()));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Ask(Rsa().Sign(UsualClaims(), {{"kid", "k" + std::to_string(i)}})),
              Denied(Denial::kUnknown));
  }
  EXPECT_EQ(asked.size(), 1U);
  Pass(31);
  for (int i = 0; i < 5; ++i) Ask(Rsa().Sign(UsualClaims(), {{"kid", "new" + std::to_string(i)}}));
  EXPECT_EQ(asked.size(), 2U);
  // A rotated key counts as soon as it is fetched.
  const Signer next("next", "RS256");
  answer = JsonText({{"keys", {next.Public()}}});
  Pass(31);
  EXPECT_EQ(Ask(next.Sign(UsualClaims())), "red developer");
  EXPECT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked.back(), "https://idp.example/jwks");
}

TEST_F(TokenVerifierTest, AnUnknownIssuerCausesNoFetch) {
  EXPECT_EQ(Ask(Rsa().Sign(With("iss", "https://evil.example"))), Denied(Denial::kUnknown));
  EXPECT_TRUE(asked.empty());
  EXPECT_FALSE(verifier->IsOfIssuer(Rsa().Sign(With("iss", "https://evil.example"))));
  EXPECT_TRUE(verifier->IsOfIssuer(Stranger().Sign(UsualClaims())));
  EXPECT_TRUE(verifier->IsForUs(Stranger().Sign(UsualClaims())));
  EXPECT_FALSE(verifier->IsForUs(Rsa().Sign(With("aud", "an-app-in-a-sandbox"))));
}

TEST_F(TokenVerifierTest, ASpentSourceHasNoTokenVerified) {
  const std::string known = Rsa().Sign(UsualClaims());
  Ask(known);
  int pool = 0;
  loop.on_call = [&pool](const std::string& call) { pool += call == "pool asked"; };
  EXPECT_EQ(Ask(Rsa().Sign(With("n", 1)), false), Denied(Denial::kUnknown));
  EXPECT_EQ(Ask(known, false), "red developer");
  EXPECT_EQ(pool, 0);
  // Neither is a token that was refused just before, or verified.
  const std::string forged = Stranger().Sign(UsualClaims());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(forged), Denied(Denial::kUnknown));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(known), "red developer");
  EXPECT_EQ(pool, 1);
}

TEST_F(TokenVerifierTest, SignaturesAreCheckedOneAtATimeAndFewWait) {
  Ask(Rsa().Sign(UsualClaims()));
  int pool = 0;
  loop.on_call = [&pool](const std::string& call) { pool += call == "pool asked"; };
  std::vector<std::string> told;
  for (size_t i = 0; i < TokenVerifier::kMostWaiting + 2; ++i) {
    verifier->Authenticate(
        "eyJ" + Stranger().Sign(With("n", i)).substr(3), true, [&told](const Authenticated& who) {
          told.push_back(who ? "in" : std::to_string(static_cast<int>(who.error())));
        });
  }
  EXPECT_EQ(pool, 1);
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ("denied " + told.front(), Denied(Denial::kUnavailable));
  loop.Run();
  EXPECT_EQ(told.size(), TokenVerifier::kMostWaiting + 2);
}

TEST_F(TokenVerifierTest, KeysOfBeforeCountWhileTheProviderIsAway) {
  answer = Fail(Code::kUnavailable, "away");
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), Denied(Denial::kUnavailable));
  Pass(31);
  answer = KeySetText();
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), "red developer");
  answer = Fail(Code::kUnavailable, "away");
  Pass(400);
  const auto fresh = [&](const char* who) {
    json claims = With("sub", who);
    claims["exp"] = clock.unix_ms / 1000 + 3600;
    claims["iat"] = clock.unix_ms / 1000;
    return Rsa().Sign(claims);
  };
  const std::string bob = fresh("bob");
  EXPECT_EQ(Ask(bob), "red developer");
  Pass(400);
  EXPECT_EQ(Ask(fresh("carol")), Denied(Denial::kUnavailable));
  // A token that was verified counts until it expires.
  EXPECT_EQ(Ask(bob), "red developer");
  // A key that the provider withdraws ends at the next fetch.
  answer = JsonText({{"keys", {Ec().Public()}}});
  Pass(31);
  EXPECT_EQ(Ask(fresh("dave")), Denied(Denial::kUnknown));
}

TEST_F(TokenVerifierTest, TellsTheAgeOfKeysAndWhoIsAway) {
  const auto state = [this] { return verifier->KeyStates().at(0); };
  EXPECT_EQ(verifier->KeyStates().size(), 1U);
  EXPECT_EQ(state().issuer, kIssuer);
  EXPECT_FALSE(state().age_seconds || state().away) << "nobody has asked yet";
  answer = Fail(Code::kUnavailable, "away");
  Ask(Rsa().Sign(UsualClaims()));
  EXPECT_TRUE(!state().age_seconds && state().away);
  Pass(31);
  answer = KeySetText();
  Ask(Rsa().Sign(UsualClaims()));
  Pass(7);
  EXPECT_TRUE(state().age_seconds == 7 && !state().away);
  answer = Fail(Code::kUnavailable, "away");
  Pass(300);
  Ask(Rsa().Sign(With("sub", "bob")));
  EXPECT_TRUE(state().age_seconds == 307 && state().away);
  Pass(301);
  EXPECT_FALSE(state().away) << "nobody has asked since";
}

TEST_F(TokenVerifierTest, AKeySetOfTooManyKeysIsNone) {
  std::vector<json> keys(kMaxKeysOfSet, Ec().Public());
  keys.push_back(Rsa().Public());
  answer = JsonText({{"keys", keys}});
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), Denied(Denial::kUnavailable));
}

TEST_F(TokenVerifierTest, AHolderEndsAMinuteAfterItsNewestToken) {
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), "red developer");
  const std::string alice = key_id;
  EXPECT_EQ(alice.find("alice"), std::string::npos);
  EXPECT_EQ(verifier->Find(alice)->subject, "alice");
  // A renewed token prolongs what the first has opened.
  Ask(Rsa().Sign(With("exp", kNow + 1200)));
  EXPECT_EQ(key_id, alice);
  Pass(700);
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(verifier->Find(alice));
  Pass(1200 + 59 - 700);
  EXPECT_TRUE(ended.empty());
  Pass(1);
  EXPECT_EQ(ended, std::vector{alice});
  EXPECT_FALSE(verifier->Find(alice));
  EXPECT_EQ(Ask(Rsa().Sign(UsualClaims())), Denied(Denial::kExpired));
}

TEST_F(TokenVerifierTest, OnePersonWithTwoRolesIsTwoHolders) {
  Ask(Rsa().Sign(UsualClaims()));
  const std::string developer = key_id;
  Ask(Rsa().Sign(With("groups", "team-blue")));
  EXPECT_NE(key_id, developer);
  EXPECT_EQ(verifier->Find(developer)->tenant, "red");
  EXPECT_EQ(verifier->Find(key_id)->tenant, "blue");
}

TEST_F(TokenVerifierTest, ManyTokensOfOneHolderDisplaceNobodys) {
  Ask(Rsa().Sign(With("sub", "bob")));
  const std::string bob = key_id;
  for (size_t i = 0; i < TokenVerifier::kMostTokens + 5; ++i) {
    EXPECT_EQ(Ask(Ec().Sign(With("exp", kNow + 700 + static_cast<int64_t>(i)))), "red developer");
  }
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(verifier->Find(bob));
  EXPECT_TRUE(verifier->Find(key_id));
}

TEST_F(TokenVerifierTest, TheTokenThatExpiresFirstGivesWay) {
  Ask(Rsa().Sign(With("exp", kNow + 60)));
  const std::string first = key_id;
  for (size_t i = 0; i < TokenVerifier::kMostTokens; ++i) {
    EXPECT_EQ(Ask(Ec().Sign(With("sub", std::to_string(i)))), "red developer");
  }
  EXPECT_EQ(ended, std::vector{first});
  EXPECT_TRUE(verifier->Find(key_id));
}

TEST_F(TokenVerifierTest, ARuleThatGoesEndsItsHolders) {
  const std::string token = Rsa().Sign(UsualClaims());
  Ask(token);
  const std::string developer = key_id;
  verifier->SetRules({{"red", Rule("team-red", Role::kViewer)}});
  EXPECT_EQ(ended, std::vector{developer});
  EXPECT_FALSE(verifier->Find(developer));
  EXPECT_EQ(Ask(token), "red viewer");
  EXPECT_EQ(asked.size(), 1U);
  verifier->SetRules({});
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_EQ(Ask(token), Denied(Denial::kUnknown));
}

TEST_F(TokenVerifierTest, RulesMayGoWhileATokenWaits) {
  std::string told;
  verifier->Authenticate(Rsa().Sign(UsualClaims()), true,
                         [&told](const Authenticated& who) { told = who ? "in" : "out"; });
  verifier->SetRules({});
  loop.Run();
  EXPECT_EQ(told, "out");
}

}  // namespace
}  // namespace atl::tenants
