// Asks an HTTP service of the operator whose key a text is, as OpenSandbox's server does:
//
//   GET ENDPOINT    OPEN-SANDBOX-API-KEY: <the key>    [AUTH_HEADER: AUTH_TOKEN]
//   200 {"namespace": "red", "ttl": 30}    the key is red's, for 30 seconds
//   401, other 4xx                         nobody's
//
// Any other answer, and none, is an error of the provider; 408 and 429 too. Then an earlier answer
// counts until it is max_stale_seconds old. After a 5xx, and without an answer, the provider is
// down for all keys, and is left alone for some seconds. The other errors are this one key's,
// because a stranger could otherwise stop everybody with a key that a firewall of the provider
// dislikes. Keys of over 512 characters, or with others than printable ASCII, are nobody's without
// a question.
//
// Known keys are asked for again when their time is over, also while nobody uses them, so that what
// a dead key has opened ends. One question is in flight at a time, on a pool thread. The number of
// known keys, of refused ones and of waiting requests is bounded.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/tenants/denial.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::tenants {

class HttpProvider {
 public:
  struct Settings {
    std::string endpoint;     // http:// or https:// URL
    std::string auth_header;  // the daemon's own credentials at the provider; empty: none
    std::string auth_token;
    int64_t timeout_seconds = 5;
    int64_t max_stale_seconds = 300;
    std::string secret;  // hides keys behind their ids
  };
  struct Reply {
    int status = 0;
    std::string body;
  };
  // Asks for one key. Blocks; called on a pool thread.
  using Ask = std::function<Result<Reply>(const std::string& key)>;

  static constexpr size_t kMostKnown = 4096;
  static constexpr size_t kMostRefused = 4096;
  static constexpr size_t kMostWaiting = 256;

  // `ask` is HttpAsk of the settings, or a test's.
  HttpProvider(Loop& loop, const Clock& clock, TenantTable& tenants, Settings settings, Ask ask);
  HttpProvider(const HttpProvider&) = delete;
  HttpProvider& operator=(const HttpProvider&) = delete;
  ~HttpProvider();

  // Calls `done` at once if the answer is known, else when the provider has answered. If not
  // `may_ask`, an answer that is not known is kUnknown.
  void Authenticate(std::string_view key, bool may_ask, std::function<void(Authenticated)> done);
  Authenticated Find(const std::string& key_id) const;
  // Returns true if the provider has vouched for the key and not refused it since, though the
  // answer may be too old to count.
  bool HasVouchedFor(std::string_view key) const;
  // Returns true if the provider's last answer was a 5xx, or none, in the last five minutes.
  bool is_away() const { return clock_.BootMicros() < away_until_us_; }
  // `ended` is called with the id of each key that the provider does not vouch for any more.
  void OnEnd(std::function<void(const std::string& key_id)> ended) { on_end_ = std::move(ended); }

 private:
  struct Known {
    std::string key;
    std::string id;
    std::string name_space;
    int64_t fresh_until_us = 0;
    int64_t stale_until_us = 0;
    int64_t used_us = 0;
  };
  struct Waiting {
    std::string key;
    std::vector<std::function<void(Authenticated)>> done;
  };

  std::string HashOf(std::string_view key) const;
  Identity IdentityOf(const Known& known) const;
  void Enqueue(const std::string& hash, std::string key, std::function<void(Authenticated)> done);
  void AskNext();
  // Returns the holder by an earlier answer that still counts.
  Authenticated StaleOf(const std::string& hash) const;
  // Answers all who wait for this key.
  void Answer(const std::string& hash, const Authenticated& verdict);
  void Take(const std::string& hash, const Result<Reply>& answer);
  // Logs an answer that tells nothing, at most once in some seconds.
  void Complain(const Result<Reply>& answer);
  // Records that the key belongs to the namespace. Returns false if the answer makes no sense.
  bool Learn(const std::string& hash, const std::string& key, const std::string& body);
  void Forget(const std::string& hash);
  void Refresh();

  Loop& loop_;
  const Clock& clock_;
  TenantTable& tenants_;
  const Settings settings_;
  const Ask ask_;
  std::function<void(const std::string&)> on_end_;
  // The keys of these maps are hashes of API keys.
  std::map<std::string, Known> known_;
  std::set<std::string> former_;  // not refused, but forgotten when their answers became too old
  std::map<std::string, int64_t> refused_until_us_;
  std::map<std::string, Waiting> waiting_;
  std::deque<std::string> queue_;           // hashes of waiting_, in order
  std::map<std::string, std::string> ids_;  // key id → hash
  bool asking_ = false;
  int64_t away_until_us_ = 0;  // 0: the last question had an answer
  int64_t down_until_us_ = 0;  // the provider failed; it is not asked before this
  int64_t silent_until_us_ = 0;
  Loop::Id timer_ = 0;
  Guard guard_;  // the last member, so that it goes first
};

// Returns the function that asks the service over HTTP.
HttpProvider::Ask HttpAsk(const HttpProvider::Settings& settings);

}  // namespace atl::tenants
