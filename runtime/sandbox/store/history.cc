#include "runtime/sandbox/store/history.h"

#include <optional>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
Result<std::unique_ptr<History>> History::Open(sqlite::Db& db, Loop& loop, int64_t least_room) {
  ATOLL_ASSIGN(
      sqlite::Stmt insert,
      db.Prepare("INSERT INTO history (id, seq, time_ms, kind, reason, message) SELECT "
                 "?1, COALESCE(MAX(seq), 0) + 1, ?2, ?3, ?4, ?5 FROM history WHERE id=?1"));
  ATOLL_ASSIGN(sqlite::Stmt trim, db.Prepare("DELETE FROM history WHERE id=?1 AND seq <= "
                                             "(SELECT MAX(seq) FROM history WHERE id=?1) - ?2"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM history WHERE id=?1"));
  ATOLL_ASSIGN(sqlite::Stmt select, db.Prepare("SELECT time_ms, kind, reason, message FROM history "
                                               "WHERE id=?1 ORDER BY seq"));
  return std::unique_ptr<History>(new History(loop, db, least_room, std::move(insert),
                                              std::move(trim), std::move(remove),
                                              std::move(select)));
}

void History::Add(const Sandbox& sandbox, HistoryEvent event) {
  Tell(sandbox, event);
  Enqueue({sandbox.id, std::move(event)});
}

void History::Note(const Sandbox& sandbox, std::string kind, int64_t now_ms) {
  if (sandbox.stocked) return;
  HistoryEvent event{now_ms, std::move(kind), sandbox.reason, sandbox.message};
  if (IsLeaving(sandbox.state)) event.kind = kDeletedEvent;
  Add(sandbox, std::move(event));
}

void History::Tell(const Sandbox& sandbox, HistoryEvent event) {
  if (on_event_) on_event_(sandbox.id, event);
  const auto add = [&sandbox](EventFeed& feed, HistoryEvent its_event) {
    feed.recent.push_back({++feed.last, sandbox.id, sandbox.tenant, std::move(its_event)});
    if (feed.recent.size() > kRecent) feed.recent.pop_front();
  };
  if (!sandbox.tenant.empty()) add(by_tenant_[sandbox.tenant], event);
  add(all_, std::move(event));
}

const EventFeed& History::FeedOf(const tenants::Caller& caller) const {
  static const EventFeed kNothing;
  if (caller.sees_all || caller.tenant.empty()) return all_;
  const auto found = by_tenant_.find(caller.tenant);
  return found == by_tenant_.end() ? kNothing : found->second;
}

void History::Remove(const std::string& id) {
  // Events of the sandbox that are not written yet are dropped.
  std::erase_if(changes_, [&](const Change& change) { return change.id == id; });
  Enqueue({id, {}});
}

Status History::RemoveStrays() {
  return db_.Exec(
      "DELETE FROM history WHERE id NOT IN (SELECT id FROM sandboxes) AND id NOT IN "
      "(SELECT id FROM gone WHERE record IS NOT NULL)");
}

void History::Enqueue(Change change) {
  changes_.push_back(std::move(change));
  if (changes_.size() > 1) return;
  loop_.Post(guard_([this] { Flush(); }));
}

void History::Flush() {
  if (changes_.empty()) return;
  const std::vector<Change> changes = std::exchange(changes_, {});
  if (auto written = Write(changes); !written) {
    LogLine(LogLevel::kWarning, "cannot write the history of sandboxes").Add(written.error());
  }
}

Status History::Write(const std::vector<Change>& changes) {
  ATOLL_ASSIGN(const int64_t room, db_.Room());
  std::optional<sqlite::Transaction> transaction;
  if (changes.size() > 1) {
    ATOLL_ASSIGN(sqlite::Transaction begun, sqlite::Transaction::Begin(db_));
    transaction.emplace(std::move(begun));
  }
  for (const Change& change : changes) {
    if (change.event.kind.empty()) {
      ATOLL_TRY(remove_.Bind(1, change.id).Run());
      continue;
    }
    if (room < least_room_) continue;
    const HistoryEvent& event = change.event;
    ATOLL_TRY(insert_.Bind(1, change.id)
                  .Bind(2, event.time_ms)
                  .Bind(3, event.kind)
                  .Bind(4, event.reason)
                  .Bind(5, event.message)
                  .Run());
    ATOLL_TRY(trim_.Bind(1, change.id).Bind(2, int64_t{kMaxEvents}).Run());
  }
  return transaction ? transaction->Commit() : Status();
}

Result<std::vector<HistoryEvent>> History::Find(const std::string& id) {
  Flush();
  std::vector<HistoryEvent> events;
  select_.Reset();
  select_.Bind(1, id);
  for (;;) {
    ATOLL_ASSIGN(const bool row, select_.Step());
    if (!row) break;
    events.push_back({select_.ColumnInt(0), select_.ColumnText(1), select_.ColumnText(2),
                      select_.ColumnText(3)});
  }
  select_.Reset();
  return events;
}

}  // namespace atl::sandbox
