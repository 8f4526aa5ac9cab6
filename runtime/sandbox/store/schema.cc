#include "runtime/sandbox/store/schema.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/json_text.h"

// A shipped migration step never changes, nor anything that it calls. So a step must not use the
// lists of fields, which change with later releases.
namespace atl::sandbox {
namespace {

using nlohmann::json;

// The tables are WITHOUT ROWID: with one b-tree per table, writing a row costs one page of the WAL
// instead of two.
Status MakeSandboxes(sqlite::Db& db) {
  return db.Exec(
      "CREATE TABLE sandboxes ("
      " id TEXT PRIMARY KEY,"
      " state TEXT NOT NULL,"
      " reason TEXT NOT NULL,"
      " message TEXT NOT NULL,"
      " transition_ms INTEGER NOT NULL,"
      " slot INTEGER NOT NULL,"
      " created_ms INTEGER NOT NULL,"
      " expires_ms INTEGER,"
      " spec TEXT NOT NULL) WITHOUT ROWID");
}

// Keys are numbered, so the oldest can be deleted without reading the others.
Status MakeKeys(sqlite::Db& db) {
  return db.Exec(
      "CREATE TABLE idempotency_keys ("
      " number INTEGER PRIMARY KEY,"
      " key TEXT NOT NULL,"
      " fingerprint TEXT NOT NULL,"
      " sandbox TEXT NOT NULL,"
      " made_ms INTEGER NOT NULL)");
}

// Tables that an older release made only when it first needed them.
constexpr char kUnnumbered[] =
    "CREATE TABLE IF NOT EXISTS gone (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS history (id TEXT NOT NULL, seq INTEGER NOT NULL,"
    " time_ms INTEGER NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL,"
    " PRIMARY KEY (id, seq)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS volumes (name TEXT PRIMARY KEY, state INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, owner TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS pools (name TEXT PRIMARY KEY, image TEXT NOT NULL,"
    " limits TEXT NOT NULL, buffer_min INTEGER NOT NULL, buffer_max INTEGER NOT NULL,"
    " pool_min INTEGER NOT NULL, pool_max INTEGER NOT NULL, created_ms INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS templates (id TEXT PRIMARY KEY, record TEXT NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS snapshots (id TEXT PRIMARY KEY, sandbox TEXT NOT NULL,"
    " name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, transition_ms INTEGER NOT NULL, size INTEGER NOT NULL,"
    " restore TEXT NOT NULL) WITHOUT ROWID;";

using Texts = std::vector<std::string>;

// Replaces `table` by a new table with `columns`. `texts_of` converts each row that `select` finds;
// the first column of both is the id. May throw what nlohmann/json throws.
Status Remake(sqlite::Db& db, const std::string& table, const std::string& columns,
              const std::string& select, Result<Texts> (*texts_of)(const sqlite::Stmt& row)) {
  ATOLL_TRY(db.Exec("CREATE TABLE remade (" + columns + ") WITHOUT ROWID"));
  {
    ATOLL_ASSIGN(sqlite::Stmt row, db.Prepare(select));
    for (;;) {
      ATOLL_ASSIGN(const bool is_there, row.Step());
      if (!is_there) break;
      const auto damaged = [&](const std::string& why) {
        return Fail(Code::kInternal, "record " + row.ColumnText(0) + " of " + table + ": " + why);
      };
      try {
        Result<Texts> texts = texts_of(row);
        if (!texts) return damaged(texts.error().message());
        const std::string more = texts->size() == 3 ? ",?3" : "";
        ATOLL_ASSIGN(sqlite::Stmt insert,
                     db.Prepare("INSERT INTO remade VALUES (?1,?2" + more + ")"));
        for (size_t i = 0; i < texts->size(); ++i)
          insert.Bind(static_cast<int>(i) + 1, (*texts)[i]);
        ATOLL_TRY(insert.Run());
      } catch (const json::exception& e) {
        return damaged(e.what());
      }
    }
  }
  return db.Exec("DROP TABLE " + table + "; ALTER TABLE remade RENAME TO " + table);
}

constexpr char kOneText[] = "id TEXT PRIMARY KEY, record TEXT NOT NULL";

Result<Texts> RemakeSandbox(const sqlite::Stmt& row) {
  ATOLL_ASSIGN(json record, ParseJson(row.ColumnText(8)));
  json moves = {{"state", row.ColumnText(1)},
                {"reason", row.ColumnText(2)},
                {"message", row.ColumnText(3)},
                {"transition", row.ColumnInt(4)},
                {"slot", row.ColumnInt(5)}};
  if (!row.ColumnIsNull(7)) moves["expires"] = row.ColumnInt(7);
  if (record.contains("reclaimed")) moves["reclaimed"] = record.at("reclaimed");
  record.erase("reclaimed");
  record["created"] = row.ColumnInt(6);
  // The field was first a boolean (a path of the host or not), and later a word for three kinds.
  if (record.contains("volumes")) {
    for (json& volume : record.at("volumes")) {
      const json& host = volume.at("host");
      volume["kind"] = host.is_string() ? "objects" : host.get<bool>() ? "host" : "named";
      volume.erase("host");
    }
  }
  return Texts{row.ColumnText(0), JsonText(moves), JsonText(record)};
}

Result<Texts> RemakeVolume(const sqlite::Stmt& row) {
  constexpr const char* kStates[] = {"making", "ready", "removing", "trial"};
  const auto state = static_cast<uint64_t>(row.ColumnInt(1));
  if (state >= std::size(kStates)) return Fail(Code::kInternal, "no state has its number");
  return Texts{row.ColumnText(0), JsonText({{"state", kStates[state]},
                                            {"created", row.ColumnInt(2)},
                                            {"owner", row.ColumnText(3)}})};
}

Result<Texts> RemakePool(const sqlite::Stmt& row) {
  ATOLL_ASSIGN(json limits, ParseJson(row.ColumnText(2)));
  return Texts{row.ColumnText(0), JsonText({{"image", row.ColumnText(1)},
                                            {"limits", std::move(limits)},
                                            {"buffer_min", row.ColumnInt(3)},
                                            {"buffer_max", row.ColumnInt(4)},
                                            {"pool_min", row.ColumnInt(5)},
                                            {"pool_max", row.ColumnInt(6)},
                                            {"created", row.ColumnInt(7)}})};
}

Result<Texts> RemakeSnapshot(const sqlite::Stmt& row) {
  ATOLL_ASSIGN(json record, ParseJson(row.ColumnText(9)));
  ATOLL_ASSIGN(const json from, ParseJson(record.at("config").get<std::string>()));
  json config = {{"env", from.at("Env")},
                 {"cwd", from.at("WorkingDir")},
                 {"user", from.at("User")},
                 {"arch", from.at("Architecture")},
                 {"entrypoint", from.at("Entrypoint")},
                 {"cmd", from.at("Cmd")}};
  for (const auto& [name, field] :
       {std::pair("ExposedPorts", "ports"), std::pair("Volumes", "volumes")}) {
    if (!from.contains(name)) continue;
    for (const auto& [key, nothing] : from.at(name).items()) config[field].push_back(key);
  }
  for (const auto& [name, field] : {std::pair("Labels", "labels"), std::pair("Shell", "shell"),
                                    std::pair("StopSignal", "stop_signal")}) {
    if (from.contains(name)) config[field] = from.at(name);
  }
  record["config"] = std::move(config);
  record.update({{"sandbox", row.ColumnText(1)},
                 {"name", row.ColumnText(2)},
                 {"state", row.ColumnText(3)},
                 {"reason", row.ColumnText(4)},
                 {"message", row.ColumnText(5)},
                 {"created", row.ColumnInt(6)},
                 {"transition", row.ColumnInt(7)},
                 {"size", row.ColumnInt(8)}});
  return Texts{row.ColumnText(0), JsonText(record)};
}

// This step changes a row into an id and a text that names its fields. A sandbox has two texts; a
// transition writes only the first.
Status DescribeRecords(sqlite::Db& db) {
  ATOLL_TRY(db.Exec(kUnnumbered));
  ATOLL_TRY(Remake(db, "sandboxes",
                   "id TEXT PRIMARY KEY, moves TEXT NOT NULL, record TEXT NOT NULL",
                   "SELECT id, state, reason, message, transition_ms, slot, created_ms, "
                   "expires_ms, spec FROM sandboxes",
                   RemakeSandbox));
  ATOLL_TRY(Remake(db, "volumes", kOneText, "SELECT name, state, created_ms, owner FROM volumes",
                   RemakeVolume));
  ATOLL_TRY(Remake(db, "pools", kOneText,
                   "SELECT name, image, limits, buffer_min, buffer_max, pool_min, pool_max, "
                   "created_ms FROM pools",
                   RemakePool));
  return Remake(db, "snapshots", kOneText,
                "SELECT id, sandbox, name, state, reason, message, created_ms, transition_ms, "
                "size, restore FROM snapshots",
                RemakeSnapshot);
}

// Everything from before there were owners belongs to the host. The other records have their owner
// in the text; that of a sandbox is also a column, for the trigger of GoneStore.
Status AddOwners(sqlite::Db& db) {
  return db.Exec(
      "ALTER TABLE sandboxes ADD COLUMN tenant TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE idempotency_keys ADD COLUMN tenant TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE gone ADD COLUMN tenant TEXT NOT NULL DEFAULT ''");
}

// A row of `gone` with a record is an entry of the history. The indexes serve its lists, and have
// all that its limits ask for.
Status KeepHistory(sqlite::Db& db) {
  return db.Exec(
      "ALTER TABLE gone ADD COLUMN gone_ms INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE gone ADD COLUMN record TEXT;"
      "ALTER TABLE gone ADD COLUMN log TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE gone ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE gone ADD COLUMN measured INTEGER NOT NULL DEFAULT 0;"
      "CREATE INDEX gone_by_time ON gone (gone_ms, number) WHERE record IS NOT NULL;"
      "CREATE INDEX gone_of_tenant ON gone (tenant, gone_ms, number, bytes)"
      " WHERE record IS NOT NULL");
}

constexpr sqlite::SchemaStep kSteps[] = {MakeSandboxes, MakeKeys, DescribeRecords, AddOwners,
                                         KeepHistory};

}  // namespace

Result<sqlite::Db> OpenRecords(const std::string& path, const sqlite::Options& options) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, options));
  if (auto migrated = sqlite::Migrate(db, kSteps); !migrated) {
    return Fail(std::move(migrated).error().Wrap(path));
  }
  return db;
}

}  // namespace atl::sandbox
