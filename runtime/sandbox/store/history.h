// The events of each sandbox, for people who ask why something happened: a bounded list per
// sandbox, in a table of its own.
//
// The events are written right after the present round of the loop, so no answer waits for the
// write. A daemon that is killed in that moment loses the event, but never the state that the event
// reports.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

// Kind of an event: the kernel killed a process for its sandbox's memory limit, and the sandbox
// went on.
inline constexpr char kOutOfMemory[] = "OutOfMemory";
// The sandbox reached its limit of processes and could not start another.
inline constexpr char kPidsLimit[] = "PidsLimit";
// The sandbox is gone: clients can no longer read it.
inline constexpr char kDeletedEvent[] = "Deleted";
// The server process of a mounted bucket has ended.
inline constexpr char kVolumeLost[] = "VolumeLost";

// Reason of an end that neither a client nor the sandbox caused.
inline constexpr char kSandboxLost[] = "SANDBOX_LOST";

struct HistoryEvent {
  int64_t time_ms = 0;
  std::string kind;     // the new state ("Running", …) or another kind ("Renewed", …)
  std::string reason;   // "CONTAINER_RUNNING", …
  std::string message;  // text for people; may quote output of the sandbox
};

// An event as clients get it that follow all sandboxes.
struct RecentEvent {
  uint64_t number = 0;  // counts the events of a feed from 1, since the daemon started
  std::string id;       // id of the sandbox
  std::string tenant;   // owner of the sandbox
  HistoryEvent event;
};

// Events, oldest first; sandboxes that are gone by now are included.
struct EventFeed {
  std::deque<RecentEvent> recent;
  uint64_t last = 0;  // number of the latest event
};

class History {
 public:
  // Number of events of a feed in memory.
  static constexpr size_t kRecent = 2048;
  // Number of events that each sandbox keeps.
  static constexpr int kMaxEvents = 64;

  // `db` outlives this object and is used on this thread only. If `db` has less than `least_room`
  // free bytes, History drops events, because on a full disk records have priority.
  static Result<std::unique_ptr<History>> Open(sqlite::Db& db, Loop& loop, int64_t least_room = 0);
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void Add(const Sandbox& sandbox, HistoryEvent event);
  // Adds the present state of a sandbox with the cause in its record. For a sandbox that is being
  // deleted, adds its end, and `kind` is ignored. A sandbox in stock has no events.
  void Note(const Sandbox& sandbox, std::string kind, int64_t now_ms);
  void Note(const Sandbox& sandbox, int64_t now_ms) {
    Note(sandbox, std::string(StateName(sandbox.state)), now_ms);
  }
  // Returns the feed that the caller follows. A tenant has a feed of its own, whose numbers tell
  // nothing of the events of others. Callers of the host get the feed of all sandboxes, of which
  // they may see those that Caller::Sees.
  const EventFeed& FeedOf(const tenants::Caller& caller) const;
  // Calls `on_event` for each event, right before followers can read it.
  void OnEvent(std::function<void(const std::string& id, const HistoryEvent& event)> on_event) {
    on_event_ = std::move(on_event);
  }
  // Removes the events of a sandbox that is gone and not kept.
  void Remove(const std::string& id);
  // Call at start: removes events whose removal was interrupted, of sandboxes that have no record
  // and that the store of what is gone does not keep.
  Status RemoveStrays();
  // Returns events, oldest first.
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
    HistoryEvent event;  // empty kind: removes all of the sandbox's events
  };
  // Reports an event to followers.
  void Tell(const Sandbox& sandbox, HistoryEvent event);
  void Enqueue(Change change);
  void Flush();
  Status Write(const std::vector<Change>& changes);

  Loop& loop_;
  sqlite::Db& db_;
  const int64_t least_room_;
  sqlite::Stmt insert_, trim_, remove_, select_;
  std::vector<Change> changes_;
  EventFeed all_;
  std::map<std::string, EventFeed> by_tenant_;  // without the host's
  std::function<void(const std::string& id, const HistoryEvent& event)> on_event_;
  const Guard guard_;
};

}  // namespace atl::sandbox
