#include "runtime/sandbox/store/gone_store.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/sandbox/record/record_fields.h"
#include "runtime/sandbox/store/record_text.h"

namespace atl::sandbox {
namespace {

// The daemon uses a trigger instead of a second statement in Store::Remove, so no code path that
// removes a record can forget the id. It makes the trigger anew at each start, because the text
// contains the number of kept ids. A sandbox is in the store only from its publication on, so ids
// that no client was told are not remembered.
//
// A claim of a template's member removes the host's record and inserts the client's, so an id may
// come again with another owner. The owner has a column of its own, because SQLite does not let a
// trigger parse the record.
//
// Each row gets the next number, so one row becomes too old with each new one. The trigger looks at
// that row alone: many rows before it may stay for their records.
std::string Trigger(int64_t kept) {
  const std::string oldest = "(SELECT MAX(number) FROM gone) - " + std::to_string(kept);
  return "DROP TRIGGER IF EXISTS remember_gone;"
         "CREATE TRIGGER remember_gone AFTER DELETE ON sandboxes BEGIN"
         " INSERT INTO gone (id, tenant) VALUES (OLD.id, OLD.tenant)"
         " ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant;"
         " DELETE FROM gone WHERE record IS NULL AND number = " +
         oldest + "; END; DELETE FROM gone WHERE record IS NULL AND number <= " + oldest;
}

constexpr char kColumns[] = "SELECT id, tenant, log, gone_ms, bytes, measured FROM gone ";

GoneStore::Entry EntryOf(const sqlite::Stmt& row) {
  return {row.ColumnText(0),
          row.ColumnText(1),
          row.ColumnText(2),
          row.ColumnInt(3),
          static_cast<uint64_t>(row.ColumnInt(4)),
          row.ColumnInt(5) != 0};
}

std::string Encode(const Sandbox& sandbox) {
  return WriteRecord([&sandbox](RecordWriter& io) {
    VisitHead(sandbox, io);
    VisitMoves(sandbox, io);
    VisitFields(sandbox, io);
  });
}

Status Decode(const std::string& text, Sandbox* sandbox) {
  return ReadRecord(text, [sandbox](RecordReader& io) {
    VisitHead(*sandbox, io);
    VisitMoves(*sandbox, io);
    VisitFields(*sandbox, io);
  });
}

// Most that is kept of the names of variables, and of the program's name. A request may have half a
// megabyte of names, and a page of the history shows many sandboxes.
constexpr size_t kMostKeptNames = 4 << 10;

// Cuts a text between characters.
std::string Cut(const std::string& text) {
  if (text.size() <= kMostKeptNames) return text;
  size_t end = kMostKeptNames;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::map<std::string, std::string> NamesOf(const std::map<std::string, std::string>& env) {
  std::map<std::string, std::string> names;
  size_t left = kMostKeptNames;
  for (const auto& [name, value] : env) {
    if (name.size() > left) {
      names["… and " + std::to_string(env.size() - names.size()) + " more"];
      break;
    }
    left -= name.size();
    names[name];
  }
  return names;
}

}  // namespace

Sandbox Remains(const Sandbox& sandbox) {
  // Names each field that is kept: a field that is added later is a secret until somebody decides
  // that it is none.
  Sandbox kept;
  kept.id = sandbox.id;
  kept.tenant = sandbox.tenant;
  kept.created_at_ms = sandbox.created_at_ms;
  kept.spec.image = sandbox.spec.image;
  kept.spec.template_id = sandbox.spec.template_id;
  kept.spec.snapshot_id = sandbox.spec.snapshot_id;
  if (!sandbox.spec.entrypoint.empty())
    kept.spec.entrypoint = {Cut(sandbox.spec.entrypoint.front())};
  kept.spec.env = NamesOf(sandbox.spec.env);
  kept.spec.platform = sandbox.spec.platform;
  kept.spec.limits = sandbox.spec.limits;
  kept.spec.reserved = sandbox.spec.reserved;
  kept.spec.isolation = sandbox.spec.isolation;
  kept.spec.readonly_root = sandbox.spec.readonly_root;
  kept.spec.network.network = sandbox.spec.network.network;
  kept.devices = sandbox.devices;
  kept.image_digest = sandbox.image_digest;
  kept.metadata = sandbox.metadata;
  kept.expires_at_ms = sandbox.expires_at_ms;
  kept.denials = sandbox.denials;
  kept.state = sandbox.state == State::kFailing || sandbox.state == State::kFailed
                   ? State::kFailed
                   : State::kTerminated;
  kept.reason = sandbox.reason;
  kept.message = sandbox.message;
  kept.transition_at_ms = sandbox.transition_at_ms;
  if (sandbox.ended) {
    kept.state = sandbox.ended->failed ? State::kFailed : State::kTerminated;
    kept.reason = sandbox.ended->reason;
    kept.message = sandbox.ended->message;
    kept.transition_at_ms = sandbox.ended->time_ms;
  }
  return kept;
}

Result<std::unique_ptr<GoneStore>> GoneStore::Open(sqlite::Db& db, int64_t kept) {
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db));
  ATOLL_TRY(db.Exec(Trigger(kept)));
  ATOLL_TRY(transaction.Commit());
  ATOLL_ASSIGN(sqlite::Stmt owner, db.Prepare("SELECT tenant FROM gone WHERE id=?1"));
  ATOLL_ASSIGN(sqlite::Stmt forget, db.Prepare("DELETE FROM gone WHERE id=?1"));
  ATOLL_ASSIGN(sqlite::Stmt keep,
               db.Prepare("INSERT INTO gone (id, tenant, gone_ms, record, log, bytes, measured) "
                          "VALUES (?1,?2,?3,?4,?5,?6,?7)"));
  return std::unique_ptr<GoneStore>(
      new GoneStore(db, kept, std::move(owner), std::move(forget), std::move(keep)));
}

Result<std::optional<std::string>> GoneStore::OwnerOf(const std::string& id) {
  owner_.Reset();
  owner_.Bind(1, id);
  ATOLL_ASSIGN(const bool found, owner_.Step());
  std::optional<std::string> owner;
  if (found) owner = owner_.ColumnText(0);
  owner_.Reset();
  return owner;
}

Result<uint64_t> GoneStore::Keep(const Sandbox& remains, int64_t gone_ms, const std::string& log,
                                 uint64_t recordings) {
  const std::string record = Encode(remains);
  const uint64_t bytes = record.size() + recordings;
  // The id of a claimed member is there already, with an older number.
  ATOLL_TRY(forget_.Bind(1, remains.id).Run());
  ATOLL_TRY(keep_.Bind(1, remains.id)
                .Bind(2, remains.tenant)
                .Bind(3, gone_ms)
                .Bind(4, record)
                .Bind(5, log)
                .Bind(6, static_cast<int64_t>(bytes))
                .Bind(7, int64_t{log.empty()})
                .Run());
  return bytes;
}

Result<bool> GoneStore::AddBytes(const std::string& id, uint64_t bytes) {
  ATOLL_ASSIGN(sqlite::Stmt add, db_.Prepare("UPDATE gone SET bytes = bytes + ?2, measured = 1 "
                                             "WHERE id=?1 AND record IS NOT NULL"));
  ATOLL_TRY(add.Bind(1, id).Bind(2, static_cast<int64_t>(bytes)).Run());
  return db_.Changes() == 1;
}

Status GoneStore::Drop(const std::string& id) {
  ATOLL_ASSIGN(sqlite::Stmt remove, db_.Prepare("DELETE FROM gone WHERE id=?1 AND number <= "
                                                "(SELECT MAX(number) FROM gone) - ?2"));
  ATOLL_TRY(remove.Bind(1, id).Bind(2, kept_).Run());
  ATOLL_ASSIGN(sqlite::Stmt drop,
               db_.Prepare("UPDATE gone SET record = NULL, log = '', bytes = 0 WHERE id=?1"));
  return drop.Bind(1, id).Run();
}

Result<std::optional<GoneSandbox>> GoneStore::Find(const std::string& id) {
  ATOLL_ASSIGN(sqlite::Stmt find, db_.Prepare("SELECT gone_ms, number, record, log, bytes FROM "
                                              "gone WHERE id=?1 AND record IS NOT NULL"));
  find.Bind(1, id);
  ATOLL_ASSIGN(const bool found, find.Step());
  if (!found) return std::optional<GoneSandbox>();
  GoneSandbox gone{find.ColumnInt(0),
                   find.ColumnInt(1),
                   {},
                   find.ColumnText(3),
                   static_cast<uint64_t>(find.ColumnInt(4))};
  gone.sandbox.id = id;
  ATOLL_TRY(Decode(find.ColumnText(2), &gone.sandbox));
  return std::optional(std::move(gone));
}

Status GoneStore::Visit(const Query& query, const std::function<bool(GoneSandbox gone)>& visit) {
  // Two indexes serve this: one for a tenant's records, one for all.
  std::string sql =
      "SELECT id, gone_ms, number, record, log, bytes FROM gone WHERE record IS NOT NULL "
      "AND gone_ms >= ?1 AND gone_ms < ?2";
  if (query.tenant) sql += " AND tenant = ?3";
  if (query.before_ms != 0) sql += " AND (gone_ms, number) < (?4, ?5)";
  sql += " ORDER BY gone_ms DESC, number DESC";
  ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare(sql));
  row.Bind(1, query.since_ms).Bind(2, query.until_ms);
  if (query.tenant) row.Bind(3, *query.tenant);
  if (query.before_ms != 0) row.Bind(4, query.before_ms).Bind(5, query.before_number);
  for (;;) {
    ATOLL_ASSIGN(const bool is_there, row.Step());
    if (!is_there) return {};
    GoneSandbox gone{row.ColumnInt(1),
                     row.ColumnInt(2),
                     {},
                     row.ColumnText(4),
                     static_cast<uint64_t>(row.ColumnInt(5))};
    gone.sandbox.id = row.ColumnText(0);
    if (const Status read = Decode(row.ColumnText(3), &gone.sandbox); !read) {
      LogLine(LogLevel::kDebug, "the history has a record that cannot be read")
          .Add("sandbox", gone.sandbox.id)
          .Add(read.error());
      continue;
    }
    if (!visit(std::move(gone))) return {};
  }
}

Result<std::vector<GoneStore::Share>> GoneStore::Shares() {
  ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare("SELECT tenant, COUNT(*), SUM(bytes) FROM gone WHERE "
                                             "record IS NOT NULL GROUP BY tenant"));
  std::vector<Share> shares;
  for (;;) {
    ATOLL_ASSIGN(const bool is_there, row.Step());
    if (!is_there) return shares;
    shares.push_back({row.ColumnText(0), static_cast<uint64_t>(row.ColumnInt(1)),
                      static_cast<uint64_t>(row.ColumnInt(2))});
  }
}

Result<std::optional<GoneStore::Entry>> GoneStore::Oldest(
    const std::optional<std::string>& tenant) {
  ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare(std::string(kColumns) + "WHERE record IS NOT NULL " +
                                             (tenant ? "AND tenant = ?1 " : "") +
                                             "ORDER BY gone_ms, number LIMIT 1"));
  if (tenant) row.Bind(1, *tenant);
  ATOLL_ASSIGN(const bool found, row.Step());
  return found ? std::optional(EntryOf(row)) : std::nullopt;
}

Result<std::vector<GoneStore::Entry>> GoneStore::WithLogs() {
  ATOLL_ASSIGN(sqlite::Stmt row,
               db_.Prepare(std::string(kColumns) + "WHERE record IS NOT NULL AND log <> ''"));
  std::vector<Entry> entries;
  for (;;) {
    ATOLL_ASSIGN(const bool is_there, row.Step());
    if (!is_there) return entries;
    entries.push_back(EntryOf(row));
  }
}

}  // namespace atl::sandbox
