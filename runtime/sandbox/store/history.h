// What has happened to each sandbox, for people who ask why: a bounded list of events beside its
// record, in a table of its own.
//
// Written right after the present round of the loop, so that nobody's answer waits for it; a daemon
// that is killed in that moment loses the event, never the state that it is about.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// The kind of an event: a process was killed for its sandbox's limit of memory, and the sandbox
// went on.
inline constexpr char kOutOfMemory[] = "OutOfMemory";
// A sandbox had as many processes as its limit allows, and could not start another.
inline constexpr char kPidsLimit[] = "PidsLimit";
// Nothing of it can be asked for any more.
inline constexpr char kDeletedEvent[] = "Deleted";
// What served one of its buckets has ended.
inline constexpr char kVolumeLost[] = "VolumeLost";

// The reason of one that ended by itself, and not by its own doing.
inline constexpr char kSandboxLost[] = "SANDBOX_LOST";

struct HistoryEvent {
  int64_t time_ms = 0;
  std::string kind;     // "Running", "Paused", "Failed", …: what it has become, or "Renewed"
  std::string reason;   // "CONTAINER_RUNNING", …
  std::string message;  // for people; may hold a sandbox's own words
};

// An event as those who follow all sandboxes get it.
struct RecentEvent {
  uint64_t number = 0;  // from 1, without gaps, since the daemon started
  std::string id;       // of the sandbox
  HistoryEvent event;
};

class History {
 public:
  // The last so many events of all sandboxes are kept in memory.
  static constexpr size_t kRecent = 2048;
  // The last so many events of a sandbox are kept.
  static constexpr int kMaxEvents = 64;

  // In `db`, which outlives us and is used on this thread only. With less than `least_room` free
  // bytes in it events are dropped: on a full disk they are kept for the records.
  static Result<std::unique_ptr<History>> Open(sqlite::Db& db, Loop& loop, int64_t least_room = 0);
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void Add(const std::string& id, HistoryEvent event);
  // The end of a sandbox: told to those who follow, and not kept with a record that goes.
  void Tell(const std::string& id, HistoryEvent event);
  // What a sandbox has become, with the cause that its record shows: added, or told if it is being
  // deleted, which `kind` then does not matter to. One in stock has no history.
  void Note(const Sandbox& sandbox, std::string kind, int64_t now_ms);
  void Note(const Sandbox& sandbox, int64_t now_ms) {
    Note(sandbox, std::string(StateName(sandbox.state)), now_ms);
  }
  // Oldest first; those of sandboxes that are gone by now are among them.
  const std::deque<RecentEvent>& recent() const { return recent_; }
  uint64_t last() const { return last_; }
  // Of one that is gone.
  void Remove(const std::string& id);
  void RemoveAll();
  // At start: forgets all others, whose removal was cut off.
  Status KeepOnly(const std::unordered_set<std::string>& ids);
  // Oldest first.
  Result<std::vector<HistoryEvent>> Find(const std::string& id);

 private:
  History(Loop& loop, sqlite::Db& db, int64_t least_room, sqlite::Stmt insert, sqlite::Stmt trim,
          sqlite::Stmt remove, sqlite::Stmt select)
      : loop_(loop),
        db_(db),
        least_room_(least_room),
        insert_(std::move(insert)),
        trim_(std::move(trim)),
        remove_(std::move(remove)),
        select_(std::move(select)) {}
  struct Change {
    std::string id;
    HistoryEvent event;  // no kind: all of the sandbox's are removed
  };
  void Enqueue(Change change);
  void Flush();
  Status Write(const std::vector<Change>& changes);

  Loop& loop_;
  sqlite::Db& db_;
  const int64_t least_room_;
  sqlite::Stmt insert_, trim_, remove_, select_;
  std::vector<Change> changes_;
  std::deque<RecentEvent> recent_;
  uint64_t last_ = 0;  // number of the latest
  const Guard guard_;
};

}  // namespace atl::sandbox
