// Answers whose a token of an identity provider is. The rules of the tenants' file (OidcRule) say
// which issuers count, where their keys are, and which claims lead to which tenant and role. The
// first rule that fits counts, in the order of the file.
//
// Keys are fetched on a pool thread, one set at a time, and only from addresses of the rules, never
// from one that a token names. A token with an unknown key id has the keys fetched again, at most
// once in 30 seconds for all tokens of the issuer. While the provider is away, the keys of before
// count for max_stale_seconds more.
//
// Signatures are checked on a pool thread as well, one at a time. Verified tokens are remembered by
// their SHA-256 until they expire, refused ones for 30 seconds or until keys have been fetched. All
// memories and queues are bounded.
//
// A holder is a person in a tenant with a role: its id in log and audit is a keyed hash of issuer,
// subject, tenant and role. The holder lives as long as its newest token.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/tenants/denial.h"
#include "runtime/tenants/oidc/key_set.h"
#include "runtime/tenants/oidc/token.h"
#include "runtime/tenants/oidc_rule.h"

namespace atl::tenants {

// A rule, and the tenant in whose entry of the file it stands.
struct TenantRule {
  std::string tenant;
  OidcRule rule;

  bool operator==(const TenantRule&) const = default;
};

class TokenVerifier {
 public:
  struct Settings {
    std::string secret;  // hides holders behind their ids
    int64_t max_stale_seconds = 300;
  };
  // Returns the text of a key set. Blocks; called on a pool thread. Bounds time and size itself.
  using Fetch = std::function<Result<std::string>(const std::string& address)>;

  static constexpr size_t kMostTokens = 4096;
  static constexpr size_t kMostOfHolder = 32;  // tokens
  static constexpr size_t kMostRefused = 4096;
  static constexpr size_t kMostWaiting = 256;

  // `fetch` is FetchKeySet, or a test's.
  TokenVerifier(Loop& loop, const Clock& clock, Settings settings, Fetch fetch);
  TokenVerifier(const TokenVerifier&) = delete;
  TokenVerifier& operator=(const TokenVerifier&) = delete;
  ~TokenVerifier();

  // Replaces the rules. All rules of an issuer have one address of keys. Holders whom no rule lets
  // in any more end.
  void SetRules(std::vector<TenantRule> rules);

  // Returns true for a token that names an issuer of the rules. Nothing of it is verified.
  bool IsOfIssuer(std::string_view text) const;
  // Returns true for a token that names an issuer and an audience of the rules, so it is meant for
  // this daemon and for nobody else. Nothing of it is verified.
  bool IsForUs(std::string_view text) const;

  // Calls `done` with the holder, or why there is none; before it returns if the token is
  // remembered. If not `may_ask`, only remembered tokens are found.
  void Authenticate(std::string_view token, bool may_ask, std::function<void(Authenticated)> done);
  // Returns the holder with that key id whose newest token has not expired.
  Authenticated Find(const std::string& key_id) const;
  // The keys of an issuer, for metrics and health.
  struct KeyState {
    std::string issuer;
    std::optional<int64_t> age_seconds;  // none: they have never been read
    bool away = false;                   // the last attempt failed, in the last five minutes
  };
  std::vector<KeyState> KeyStates() const;
  // `ended` is called with the key id of a holder whose last token has expired, and of one whom no
  // rule lets in any more.
  void OnEnd(std::function<void(const std::string& key_id)> ended) { on_end_ = std::move(ended); }

 private:
  struct Issuer {
    std::string address;
    std::shared_ptr<const KeySet> keys;  // null: never fetched
    int64_t fetched_us = 0;              // time of `keys`
    int64_t asked_us = 0;                // time of the last fetch, whatever its result; 0: none
    int64_t away_until_us = 0;           // 0: the last fetch did not fail
    bool asking = false;                 // waits for its fetch, or for its turn
    std::vector<std::string> waiting;    // hashes of tokens that wait for the fetch
  };
  struct Known {
    std::string payload;
    int64_t expires_s = 0;
    std::string key_id;
  };
  struct Holder {
    Identity identity;
    int64_t expires_s = 0;         // when the newest token expires
    std::set<std::string> tokens;  // hashes
  };
  struct Waiting {
    std::string token;
    TokenHead head;
    std::vector<std::function<void(Authenticated)>> done;
  };
  struct Refused {
    Denial denial = Denial::kUnknown;
    int64_t until_us = 0;
  };
  using Keys = Result<std::shared_ptr<const KeySet>>;

  bool HasExpired(int64_t expires_s) const;
  // Returns the holder of such claims by the first rule that fits.
  std::optional<Identity> Judge(const Claims& claims) const;
  // Returns true if a fetch may bring keys that the token needs, and may be made now.
  bool WaitsForKeys(const Issuer& issuer, const TokenHead& head) const;
  void Ask(const std::string& issuer);
  void FetchNext();
  void Took(const std::string& name, const std::string& address, Keys keys);
  void VerifyNext();
  void Verified(const std::string& hash, const Result<std::string>& payload);
  Authenticated Remember(const std::string& hash, std::string payload);
  void Add(const std::string& hash, Known known, Identity identity);
  // A copy, because the caller's text may be the entry that goes.
  void Forget(std::string hash);
  void Refuse(const std::string& hash, Denial denial, const std::string& why, int64_t until_us);
  // Answers all who wait for this token.
  void Answer(const std::string& hash, const Authenticated& verdict);
  // Drops expired tokens, ends their holders, and waits for the next.
  void WatchExpiry();

  Loop& loop_;
  const Clock& clock_;
  const Settings settings_;
  const Fetch fetch_;
  std::function<void(const std::string&)> on_end_;
  std::vector<TenantRule> rules_;
  std::map<std::string, Issuer> issuers_;
  // The keys of these maps are hashes of tokens.
  std::map<std::string, Known> known_;
  std::map<std::string, Refused> refused_;
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, Holder> holders_;  // the key is the key id
  std::deque<std::string> to_fetch_;       // names of issuers
  std::deque<std::string> to_verify_;      // hashes of tokens in waiting_
  bool fetching_ = false;
  bool verifying_ = false;
  int64_t silent_until_us_ = 0;
  Loop::Id timer_ = 0;
  Guard guard_;  // the last member, so that it goes first
};

// Reads a key set from an https:// or a file:/// address, within 5 seconds. Follows no redirect.
// The text may be longer than a key set may be.
Result<std::string> FetchKeySet(const std::string& address);

}  // namespace atl::tenants
