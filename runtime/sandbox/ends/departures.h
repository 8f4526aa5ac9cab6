// The history: keeps what sandboxes that are gone have left, within limits for each tenant. An
// entry is the remains of the record (GoneStore), the events (History), the log (EntrypointLogs)
// and recorded terminals (Recordings).
//
// The transaction that removes a record adds its entry, so after a kill at any moment a sandbox is
// in one of them. A log is not moved: its entry names it.
//
// The history gives way. It takes no room that the store reserves, and it is dropped, oldest first,
// while a file system of the daemon has no room for sandboxes.
//
// Thread rule: on the loop. Adding or dropping an entry writes some rows, about 50 µs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/output/recordings.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/gone_store.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::sandbox {

// The reason for which an entry was dropped, or was not added.
enum class Dropped : uint8_t { kAge, kSize, kFullDisk };
inline constexpr int kDropReasons = 3;

class Departures {
 public:
  // Limits of entries, because small records alone could fill the store.
  static constexpr uint64_t kMostOfTenant = 10'000;
  static constexpr uint64_t kMostOfAll = 100'000;

  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    Store& store;
    EntrypointLogs& logs;
    History& history;
    Recordings& recordings;
    Registry& registry;
    const tenants::TenantTable& tenants;
  };
  // Limits for each tenant, unless its definition has others.
  struct Settings {
    int64_t keep_seconds = 7 * 86400;        // 0: no history
    uint64_t max_bytes = uint64_t{1} << 30;  // size of records, logs and recordings
    // How long the routes of a sandbox serve its log after its removal.
    int64_t log_seconds = 0;
  };
  Departures(const Parts& parts, const Settings& settings) : parts_(parts), settings_(settings) {}
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;
  ~Departures() { parts_.loop.Cancel(timer_); }

  // Call at start, after Registry::Open: returns the logs that entries name.
  Result<std::unordered_set<std::string>> Logs();
  // Call once these logs can be read.
  void Start();

  // Removes the record of a sandbox. Adds an entry, unless the sandbox is in stock or no client was
  // told of it. Without an entry, removes its events and its log, too.
  Status Leave(const Sandbox& sandbox);
  // Returns the bytes that the living sandboxes of a tenant may still record. Together they may
  // take as much as its history.
  uint64_t RoomToRecord(const std::string& tenant) const;
  // Drops some of the oldest entries of all, because a file system is full.
  void GiveUp();

  // Returns the entry of a sandbox that the caller may see. A sandbox that clients no longer find
  // has one, although its removal may be in flight.
  Result<std::optional<GoneSandbox>> Find(const tenants::Caller& caller, const std::string& id);
  // Returns the entries of sandboxes whose removal is in flight. The others are in the GoneStore.
  std::vector<GoneSandbox> Leaving(const tenants::Caller& caller);
  GoneStore& store() { return parts_.registry.gone(); }
  // Returns the log of a removed sandbox while Settings::log_seconds last; empty after that.
  std::string RecentLogOf(const tenants::Caller& caller, const std::string& id);

  struct Stats {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    std::array<uint64_t, kDropReasons> dropped{};  // key: Dropped
  };
  Stats stats() const;

 private:
  struct Limits {
    int64_t keep_ms;
    uint64_t max_bytes;
  };
  struct Share {
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  Limits LimitsOf(const std::string& tenant) const;
  // Returns true if the sandbox has an entry, or will have one when its removal is done.
  bool HasEntry(const Sandbox& sandbox);
  // Finds the recordings of an earlier daemon, and removes those of sandboxes that neither exist
  // nor have an entry.
  void RecoverRecordings();
  // Moves the record of a sandbox to the history. False: it had none.
  Result<bool> Keep(const Sandbox& sandbox);
  void Measured(const std::string& tenant, const std::string& id, uint64_t bytes);
  // Drops at most `most` entries that exceed the limits of the tenant, or of all.
  void Trim(const std::string& tenant, int most);
  bool Exceeds(const std::string& tenant) const;
  bool DropOldest(const std::optional<std::string>& tenant, Dropped why);
  Status Drop(const GoneStore::Entry& entry);
  void Sweep();
  void SweepIn(int64_t delay_us);

  const Parts parts_;
  const Settings settings_;
  std::map<std::string, Share> shares_;  // key: tenant
  uint64_t entries_ = 0;                 // sum over all tenants
  std::array<uint64_t, kDropReasons> dropped_{};
  Loop::Id timer_ = 0;
  int64_t warned_us_ = 0;  // time of the last warning of a full disk
  const Guard guard_;
};

}  // namespace atl::sandbox
