// Knows every key: those of the key store, those of the tenants' file, those that an HTTP provider
// vouches for, and the tokens of identity providers. Answers whose a key is, and tells when one
// ends.
//
// All refusals of a key look the same to its holder. The cause is for the log, metrics and audit.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/tenants/denial.h"
#include "runtime/tenants/http_provider.h"
#include "runtime/tenants/identity.h"
#include "runtime/tenants/key_store.h"
#include "runtime/tenants/tenant_table.h"
#include "runtime/tenants/tenants_file.h"
#include "runtime/tenants/token_verifier.h"

namespace atl::tenants {

// A request for a new key.
struct KeyRequest {
  std::string tenant;  // empty: of the host
  Role role = Role::kDeveloper;
  std::string name;
  int64_t lifetime_ms = kDefaultKeyDays * 24 * 3600 * 1000;  // 0: the key never expires
  Narrowing narrowing;
};

class Directory {
 public:
  struct Parts {
    Loop& loop;
    const Clock& clock;
    TenantTable& tenants;
    std::unique_ptr<KeyStore> keys;
    std::unique_ptr<HttpProvider> provider;  // null: keys outside of the store are in the file
    std::string secret;               // hides keys that are not of the store behind their ids
    int64_t max_stale_seconds = 300;  // see TokenVerifier
    TokenVerifier::Fetch fetch_keys = FetchKeySet;
  };
  explicit Directory(Parts parts);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory();

  // Takes the tenants and keys of a file, and drops those of the former one. Keys that are gone, or
  // whose tenant is gone, end.
  void Replace(TenantsFile file);

  // Calls `done` with the holder of the key, or why there is none; before it returns if the
  // provider need not be asked. Notes the use of the key.
  // If not `may_ask`, only known keys are found, and the provider gets no question.
  void Authenticate(std::string_view secret, bool may_ask, std::function<void(Authenticated)> done);
  // Returns true if the HTTP provider has vouched for the key and not refused it since.
  bool IsVouchedFor(std::string_view secret) const;
  // Returns true for a token that names an issuer and an audience of the file, right or wrong: it
  // is meant for this daemon and for nobody else.
  bool IsTokenForUs(std::string_view text) const { return tokens_.IsForUs(text); }
  // Returns the holder of a living key, by the key's id. For tokens that were made from a key.
  Authenticated Find(const std::string& key_id) const;

  // Changes of keys count at once. Calls `done` when all changes so far survive a power cut; error:
  // they could not be written, and are undone, except that what a key had opened has ended.
  void WhenDurable(std::function<void(Status)> done) { parts_.keys->WhenDurable(std::move(done)); }
  // Makes a key. The role must fit: viewer and developer belong to a tenant, the others to the
  // host. kInvalidArgument: it does not fit. kNotFound: there is no such tenant.
  Result<NewKey> Make(const KeyRequest& wanted, const std::string& creator);
  // Returns the keys of the store that belong to the tenant, also those that have ended.
  std::vector<KeyRecord> KeysOf(const std::string& tenant) const;
  // Ends a key of that tenant at once. kNotFound: the tenant has no such key in the store.
  Status Revoke(const std::string& tenant, const std::string& key_id);
  // Makes a key with the same rights and lifetime, and ends the old one after `grace_ms`. `creator`
  // is the id of the caller's key, or the name of root. Unless the caller is an admin, the new key
  // lives for the default lifetime at most, and the old one must be the caller's own or one that it
  // made: the secret of a teammate, and a key for ever, are not to be had by self-service.
  // kNotFound: as for Revoke, or the key is not the caller's. kFailedPrecondition: the old key has
  // ended.
  Result<NewKey> Rotate(const std::string& tenant, const std::string& key_id, int64_t grace_ms,
                        const std::string& creator);

  // `ended` is called with the id of each key that ends: revoked, expired, or its tenant gone.
  // Called from the loop, never from within another call, so that a key that revokes itself gets
  // its answer.
  void OnEnd(std::function<void(const std::string& key_id)> ended);

  // Gives what has no owner to the tenant, by `adopt`, unless a tenant has got it before.
  // kNotFound: there is no such tenant.
  Status Adopt(const std::string& tenant, const std::function<Status()>& adopt);

  // Returns the number of living and of ended keys in the store.
  std::pair<size_t, size_t> CountKeys() const;
  // Null: there are no tenants. The families are told nevertheless, so that alerts can name them.
  static void AddMetrics(const Directory* directory, MetricSet* metrics);
  // Returns which provider cannot be reached; empty: none is known to be away.
  std::string Trouble() const;

 private:
  struct FileKey {
    std::string id;
    std::string tenant;
  };
  Authenticated IdentityOf(const KeyRecord& record) const;
  Authenticated IdentityOf(const FileKey& key) const;
  // Returns true if that is the id of an admin's key, or the name of root.
  bool IsAdmin(const std::string& creator) const;
  void End(const std::string& key_id);
  // Tells of keys that have expired, and waits for the next.
  void WatchExpiry();
  void WriteUses();

  const Parts parts_;
  TokenVerifier tokens_;
  std::map<std::string, FileKey> file_keys_;     // SHA-256 of the key, as hex → the key
  std::map<std::string, std::string> file_ids_;  // id of the key → its SHA-256
  std::vector<std::function<void(const std::string&)>> on_end_;
  int64_t expired_until_ms_ = 0;  // keys that expired before have been told
  Loop::Id expiry_timer_ = 0;
  Loop::Id use_timer_ = 0;
  Guard guard_;  // the last member, so that it goes first
};

}  // namespace atl::tenants
