// The ledger of what sandboxes have used: one SQLite file with an amount for each sandbox and hour.
//
// A part is the life of one group of processes. A sandbox has one part, and another one after each
// rollback. The caller reports cumulative counters of the kernel, and the ledger adds up what is
// new. Reporting the same counters twice adds nothing, so a reader that has lost its place may
// begin again.
//
// What an owner keeps beside its sandboxes, such as snapshots, has a part of the owner. It never
// ends: a daemon that starts goes on with it, so the time without a daemon counts, too. It also has
// the amounts of the owner's sandboxes whose details are no longer kept.
//
// Durations are those of the boot clock, so a step of the wall clock bills nothing. The wall clock
// only says which hour an amount belongs to. Calls may come with moments from before and after a
// step in any order.
//
// Changes are collected in memory until Commit, which writes all of them in one transaction. A
// Commit that fails keeps them.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/tenants/usage/amounts.h"

namespace atl::tenants {

inline constexpr int64_t kHourMs = 3600 * 1000;

// Cumulative counters of a part, and its memory and disk now.
struct UsageReading {
  uint64_t cpu_us = 0;
  std::optional<uint64_t> memory_bytes;  // none: not known, as at the end of a part
  uint64_t peak_memory_bytes = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  std::optional<uint64_t> disk_bytes;  // none: not known, or the store has no quotas
};

// The owner and the origin of usage.
struct UsagePart {
  std::string id;       // unique for ever
  std::string sandbox;  // the id that clients know
  std::string owner;    // tenant; "": the host
  std::string image;
  std::map<std::string, std::string> labels;
  bool first = true;  // false: the sandbox had an earlier part
  UsageReading base;  // counters from before the sandbox owed anything
};

// Resources that are held for a part, whether it uses them or not.
struct Held {
  uint64_t cpu_millis = 0;  // 1000: one processor
  uint64_t memory_bytes = 0;
  uint64_t snapshot_bytes = 0;
  uint64_t parked = 0;  // sandboxes that wait for a claim

  bool operator==(const Held&) const = default;
};

struct UsageQuery {
  enum class By : uint8_t { kTenant, kLabel, kImage, kSandbox };
  int64_t since_ms = 0;  // both are widened to whole hours
  int64_t until_ms = 0;
  By by = By::kTenant;
  std::string label;                 // the key, for kLabel
  int64_t step_hours = 0;            // 0: one row for each key
  std::optional<std::string> owner;  // none: of all owners
  // None: all of them. The answer to a question about named sandboxes, by sandbox, has one row for
  // each, whose `record` is empty. The answer is not complete while one of them has not ended.
  std::vector<std::string> sandboxes;
};

struct UsageRow {
  std::string key;         // "" for sandboxes without the label
  std::string record;      // unique id of a sandbox's part, for bills; only by sandbox
  int64_t started_ms = 0;  // start of the step
  Amounts amounts;
};

struct UsageAnswer {
  std::vector<UsageRow> rows;  // largest processor time first; kOtherKey last
  int64_t unallocated_cpu_us = 0;
  int64_t unallocated_parked_us = 0;
  // False: something was estimated, or is no longer kept, or a named sandbox has not ended.
  bool complete = true;
};
inline constexpr char kOtherKey[] = "_other";

class Ledger {
 public:
  static constexpr int64_t kRowBytes = 120;
  // Rows of an answer. All others are added up as kOtherKey.
  static constexpr size_t kMaxRows = 1000;

  struct Settings {
    int64_t keep_hours = 90 * 24;
    // Amounts that are kept, of kRowBytes each; labels and images of parts that have ended count as
    // so many more. Beyond that, the owners that have most lose the details of their oldest hours:
    // these become one amount of the owner for each hour. So nobody's bill changes, and an owner
    // that has less than its share loses nothing.
    int64_t most_rows = 2'000'000;
  };
  // Opens or creates the file (":memory:" for tests). `boot`: the kernel's boot id, because
  // counters begin anew with each boot.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& path, const std::string& boot,
                                              const Settings& settings, const Instant& now);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Begins a part now, or goes on with one that is known.
  void Begin(UsagePart part, const Held& held, const Instant& now);
  // Changes the labels of a part. They apply to all that it has used.
  void Describe(const std::string& part, std::map<std::string, std::string> labels);
  void Hold(const std::string& part, const Held& held, const Instant& now);
  // Sets what each owner keeps. An owner that is not named keeps nothing.
  void Keep(const std::map<std::string, Held>& kept, const Instant& now);
  // Sets the number of parked sandboxes that are nobody's. They end with the process that has them.
  void KeepUnowned(uint64_t parked, const Instant& now);
  void Sample(const std::string& part, const UsageReading& reading, const Instant& now);
  void SampleDisk(const std::string& part, uint64_t bytes, const Instant& now);
  // Adds commands that have begun since the last call.
  void CountCommands(const std::string& part, int64_t commands, const Instant& now);
  // Ends a part. Without a reading, it ends at its last sample, and is marked as estimated until a
  // reading comes. A part that has ended with a reading ignores further ones; so does an unknown
  // part, whose use stays unallocated.
  void End(const std::string& part, const std::optional<UsageReading>& reading,
           const Instant& ended);
  // Ends all parts but these, as estimated.
  void EndOthers(const std::unordered_set<std::string>& living);
  // `cpu_us`: processor time of all groups together since the boot, removed ones included. Call
  // after the samples. Counts what is kept until now.
  void SampleHost(uint64_t cpu_us, const Instant& now);

  // `durable`: the commit survives power loss.
  Status Commit(const Instant& now, bool durable);
  // Answers from the committed amounts.
  Result<UsageAnswer> Query(const UsageQuery& query);

 private:
  // Begins the id of an owner's part. The ids of other parts have no colon.
  static constexpr std::string_view kOwners = "owner:";
  // Begins the names of facts: the first hour whose details of an owner are kept.
  static constexpr std::string_view kFolded = "folded:";
  // One such share of the bound may come between two looks at it.
  static constexpr int64_t kShares = 8;
  using Hour = int64_t;  // since the Unix epoch
  using Pending = std::map<Hour, Amounts>;
  struct State {
    UsagePart part;
    int64_t number = 0;      // the row's; 0: not written yet
    std::string record;      // bills have it and the number
    int64_t started_ms = 0;  // Unix time
    Held held;
    // The boot clock's time until when `held` is counted.
    int64_t held_ms = 0;
    int64_t sampled_ms = 0;  // time of `last`, its disk excepted
    UsageReading last;
    int64_t disk_ms = 0;    // time of `last.disk_bytes`
    int64_t offset_ms = 0;  // offset of the wall clock when these times were taken
    int64_t ended_ms = 0;   // Unix time; 0: it lives
    bool estimated = false;
    bool changed = true;
    Pending pending;
  };

  Ledger(sqlite::Db db, std::string boot, const Settings& settings);
  Status Prepare();
  Status Load(const Instant& now);
  // Finds a part in memory or in the file. Null: there is none.
  State* Find(const std::string& part);
  Result<std::optional<State>> Read(const std::string& part);
  State StateOf(const sqlite::Stmt& row) const;
  // Moves the times of a part to another line of the boot clock, so that their Unix times stay.
  static void KeepUnixTimes(State* state, int64_t offset_ms);
  // Adds an amount, in proportion to the hours between a time of the boot clock and `to`.
  static void Spread(Pending* pending, int64_t from_ms, const Instant& to, int64_t Amounts::*value,
                     int64_t total);
  static bool IsOwners(const State& state);
  static void SetHeld(State& state, const Held& held, const Instant& now);
  void AccrueUnowned(const Instant& now);
  static void Accrue(State& state, const Instant& now);
  void TakeCounters(State& state, const UsageReading& reading, const Instant& now);
  static void TakeDisk(State& state, uint64_t bytes, const Instant& now);
  Status Write(State& state);
  // Drops what is too old, and folds what is too much.
  Status Prune(const Instant& now);
  Status DropBefore(Hour first);
  // Costs of details by owner and hour, in rows: what folding the hours up to it would free.
  using Costs = std::map<std::string, std::map<Hour, int64_t>>;
  Result<Costs> FoldableCosts();
  Status Fold(const std::string& owner, Hour last, const Instant& now);
  State OwnersPart(const std::string& owner, const Instant& now) const;

  // Statements are finalised before their connection.
  sqlite::Db db_;
  const std::string boot_;
  // Begins the records of this object's parts. It is random, because a ledger that was restored
  // from a backup gives out numbers again.
  const std::string series_;
  const Settings settings_;
  std::optional<sqlite::Stmt> find_, insert_, update_, add_, add_host_, set_;
  std::unordered_map<std::string, State> parts_;
  std::optional<uint64_t> host_cpu_us_;
  bool host_changed_ = false;
  Pending host_pending_;          // unallocated amounts
  uint64_t unowned_ = 0;          // parked sandboxes
  int64_t unowned_ms_ = 0;        // until when they are counted, on the boot clock
  int64_t opened_offset_ms_ = 0;  // offset of the wall clock at the opening
  Hour complete_from_ = 0;
  // The first hour whose details are kept, of owners that have lost some.
  std::map<std::string, Hour> folded_;
  Hour pruned_ = 0;    // when Prune ran last
  int64_t added_ = 0;  // amounts written since then
  bool durable_ = true;
};

}  // namespace atl::tenants
