// Finds out who sends a request. Without tenants there is one key, whose holder is an admin. With
// tenants the directory knows whose a key is. Counts and logs refusals, and limits the wrong keys
// of a source. A right key is never limited.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <string>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/call.h"
#include "runtime/api/ingress/guess_limit.h"
#include "runtime/api/ingress/refusals.h"
#include "runtime/tenants/directory.h"
#include "runtime/tenants/identity.h"

namespace atl::api {

class Authenticator {
 public:
  // `secret` hides keys in the log. `directory` may be null: no tenants. `auditor` may be null: no
  // audit log.
  Authenticator(std::string secret, tenants::Directory* directory, std::shared_ptr<Auditor> auditor)
      : secret_(std::move(secret)), directory_(directory), refusals_(secret_, std::move(auditor)) {}
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // Sets the one key of a daemon without tenants. Empty: no key is required.
  void SetApiKey(const std::string& api_key);

  bool has_tenants() const { return directory_ != nullptr; }
  // Returns true if requests need a key. Then pages of any origin may call, because no browser adds
  // a key by itself.
  bool NeedsKey() const { return has_tenants() || !api_key_.empty(); }

  // Returns the holder of the one key, or the refusal (see Authorise). Not for tenants.
  Parsed<tenants::Identity> CheckOneKey(const Call& call);

  // Calls `done` with the holder of the request's key, or with the refusal. Needs tenants.
  //   401 MISSING_API_KEY, INVALID_API_KEY   no key; an unknown, expired or revoked one; two keys
  //   429                                    too many wrong or unknown keys from this address
  //   503 TENANT_PROVIDER_UNAVAILABLE        the provider cannot say whose the key is
  // `call` is kept until then.
  void Identify(const Call& call, std::function<void(Parsed<tenants::Identity>)> done);

  Refusals& refusals() { return refusals_; }
  const Refusals& refusals() const { return refusals_; }

 private:
  // `vouched`: the provider has vouched for the key before.
  http::Response Deny(const Call& call, tenants::Denial denial, bool vouched);

  const std::string secret_;
  tenants::Directory* const directory_;
  std::string api_key_;
  tenants::Identity identity_;  // the holder of the one key
  GuessLimit guesses_;
  Refusals refusals_;
};

}  // namespace atl::api
