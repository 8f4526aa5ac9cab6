// Asks an HTTP service of the operator whose key a text is, as OpenSandbox's server does:
//
//   GET ENDPOINT    OPEN-SANDBOX-API-KEY: <the key>    [AUTH_HEADER: AUTH_TOKEN]
//   200 {"namespace": "red", "ttl": 30}    the key is red's, for 30 seconds
//   401                                    nobody's
//
// Any other answer, and none, is an error of the provider. Then an earlier answer counts until it
// is max_stale_seconds old.
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
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
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
  std::map<std::string, int64_t> refused_until_us_;
  std::map<std::string, Waiting> waiting_;
  std::deque<std::string> queue_;           // hashes of waiting_, in order
  std::map<std::string, std::string> ids_;  // key id → hash
  bool asking_ = false;
  int64_t down_until_us_ = 0;  // the provider failed; it is not asked before this
  Loop::Id timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// Returns the function that asks the service over HTTP.
HttpProvider::Ask HttpAsk(const HttpProvider::Settings& settings);

}  // namespace atl::tenants
