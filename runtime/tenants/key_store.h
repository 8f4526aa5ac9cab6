// The keys that 'atoll key add' has made, in a database of their own. A key is
// atl_<8 characters>_<43 characters>: its id and 256 random bits. The store keeps the SHA-256 of
// the whole key. A slow hash would protect nothing that random bits do not, and would let strangers
// burn CPU.
//
// A key that has ended stays listed for kKeepEnded, so that the log can tell a revoked key from an
// unknown one.
//
// Thread rule: on the loop. All keys are in memory; a look-up reads no file. A change counts at
// once and is written by a pool thread, because an fsync may take hundreds of milliseconds. Changes
// that are made meanwhile are written together, by one transaction and one fsync. Whoever was told
// of a change before WhenDurable was told of something that a power cut may undo.
#pragma once

#include <cstdint>
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
#include "runtime/base/sqlite.h"
#include "runtime/tenants/identity.h"

namespace atl::tenants {

inline constexpr size_t kMostKeysOfTenant = 1000;
inline constexpr size_t kMostKeys = 20'000;
inline constexpr int64_t kDefaultKeyDays = 90;

struct KeyRecord {
  std::string id;      // "k_" and 8 of [a-z0-9]
  std::string hash;    // SHA-256 of the key, 32 bytes
  std::string tenant;  // empty: of the host
  Role role = Role::kViewer;
  std::string name;     // chosen by its maker; may be empty
  std::string creator;  // key id of its maker
  int64_t created_at_ms = 0;
  int64_t expires_at_ms = 0;                   // 0: never
  int64_t revoked_at_ms = 0;                   // 0: not revoked
  int64_t last_use_ms = 0;                     // 0: never used; exact to a minute
  std::shared_ptr<const Narrowing> narrowing;  // null: none

  bool IsExpired(int64_t now_ms) const { return expires_at_ms != 0 && expires_at_ms <= now_ms; }
  bool IsAlive(int64_t now_ms) const { return revoked_at_ms == 0 && !IsExpired(now_ms); }
};

// A key that has just been made. `secret` is shown to its maker once and kept nowhere.
struct NewKey {
  std::string secret;
  KeyRecord record;
};

class KeyStore {
 public:
  static constexpr int64_t kKeepEndedMs = 30LL * 24 * 3600 * 1000;
  static constexpr int64_t kUseIntervalMs = 60'000;
  static constexpr size_t kUsesAtOnce = 100;

  // Opens or creates the database. `path` may be ":memory:".
  static Result<std::unique_ptr<KeyStore>> Open(const std::string& path, Loop& loop,
                                                const Clock& clock);
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;

  // Makes a key. `wanted` has all but id, hash, and the times of creation and use.
  // kResourceExhausted: too many keys.
  Result<NewKey> Make(KeyRecord wanted);
  // Sets when the key ends. kNotFound: there is no such key.
  Status SetExpiry(const std::string& id, int64_t expires_at_ms);
  Status Revoke(const std::string& id);
  // Calls `done` on the loop, later, when all changes so far survive a power cut. Changes that were
  // made within one call of the loop are written all or not at all. Error: they could not be
  // written, and are undone.
  void WhenDurable(std::function<void(Status)> done);

  // Returns the key's record, alive or not; null if there is none. Valid until the next change.
  const KeyRecord* Find(const std::string& id) const;
  // Returns the record whose key this is, in time that does not depend on the secret; else null.
  const KeyRecord* FindBySecret(std::string_view secret) const;
  // Returns all records, sorted by their id.
  std::vector<const KeyRecord*> All() const;

  // Returns the tenant that has adopted what had no owner; nothing if none has. A daemon adopts
  // once, when it gets tenants: what admins make later stays the host's. Both wait for the disk,
  // and are for the start, before any change of a key.
  Result<std::optional<std::string>> Adopter();
  Status SetAdopter(const std::string& tenant);

  // Notes that the key was used now.
  void Use(const std::string& id);
  // Writes the uses that have been noted, kUsesAtOnce at most, and forgets keys that ended long
  // ago. Call once a minute. An error goes to the log, and the next call tries again.
  void WriteUses();

 private:
  struct Database;
  // A change that is not on disk yet.
  struct Change {
    std::string id;
    std::optional<KeyRecord> before;  // nothing: the key was made
  };
  // The contents of one transaction.
  struct Batch {
    std::vector<Change> changes;
    std::vector<std::string> used, old;
    std::vector<std::function<void(Status)>> waiting;
  };
  KeyStore(Loop& loop, const Clock& clock, std::shared_ptr<Database> database)
      : loop_(loop), clock_(clock), database_(std::move(database)) {}
  Status Load();
  // Replaces the record, and notes the change.
  void Put(KeyRecord record);
  // Has the next batch written, when the running call of the loop and the batch before are done.
  void Schedule();
  void WriteNext();
  void Written(const Status& status);
  void Undo(const std::vector<Change>& changes);

  Loop& loop_;
  const Clock& clock_;
  const std::shared_ptr<Database> database_;  // belongs to the pool thread while `writing_`
  std::map<std::string, KeyRecord> keys_;
  std::set<std::string> used_;  // ids whose last use is newer than in the database
  Batch next_;
  Batch now_;  // the batch that is being written
  bool scheduled_ = false;
  bool writing_ = false;
  Guard guard_;  // the last member
};

// Returns true if the text has the form of a key of this store. Other texts may be keys of the
// tenants' file.
bool IsStoredKey(std::string_view text);

}  // namespace atl::tenants
