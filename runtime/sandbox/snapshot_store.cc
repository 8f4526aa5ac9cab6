#include "runtime/sandbox/snapshot_store.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/oci_layout.h"
#include "runtime/sandbox/store.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr char kSnapshotSchema[] =
    "CREATE TABLE IF NOT EXISTS snapshots ("
    " id TEXT PRIMARY KEY,"
    " sandbox TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " transition_ms INTEGER NOT NULL,"
    " size INTEGER NOT NULL,"
    " restore TEXT NOT NULL) WITHOUT ROWID";

constexpr std::string_view kSnapshotStateNames[] = {"Creating", "Ready", "Failed"};

std::string EncodeRestore(const Snapshot& s) {
  return json{{"image", s.image},
              {"digest", s.image_digest},
              {"config", images::EncodeImageConfig(s.config)},
              {"metadata", s.metadata},
              {"layers", s.layers}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Status DecodeRestore(const std::string& text, Snapshot* s) {
  try {
    const json restore = json::parse(text);
    restore.at("image").get_to(s->image);
    restore.at("digest").get_to(s->image_digest);
    restore.at("metadata").get_to(s->metadata);
    restore.at("layers").get_to(s->layers);
    ATOLL_ASSIGN(s->config, images::DecodeImageConfig(restore.at("config").get<std::string>()));
    return {};
  } catch (const json::exception& e) {
    return Fail(Code::kInternal, "record of snapshot " + s->id + ": " + e.what());
  }
}

Result<Snapshot::State> ParseState(const std::string& name) {
  for (size_t i = 0; i < std::size(kSnapshotStateNames); ++i) {
    if (name == kSnapshotStateNames[i]) return static_cast<Snapshot::State>(i);
  }
  return Fail(Code::kInternal, "unknown snapshot state '" + name + "'");
}

}  // namespace

std::string_view SnapshotStateName(Snapshot::State state) {
  return kSnapshotStateNames[static_cast<size_t>(state)];
}

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(const std::string& path) {
  ATOLL_ASSIGN(sqlite::Db db,
               sqlite::Db::Open(path, {.log_bytes = Store::kLogBytes, .durable = true}));
  ATOLL_TRY(db.Exec(kSnapshotSchema));
  return std::unique_ptr<SnapshotStore>(new SnapshotStore(std::move(db)));
}

Result<std::vector<Snapshot>> SnapshotStore::Load() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT id, sandbox, name, state, reason, message, created_ms, "
                           "transition_ms, size, restore FROM snapshots"));
  std::vector<Snapshot> snapshots;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return snapshots;
    Snapshot s;
    s.id = select.ColumnText(0);
    s.sandbox_id = select.ColumnText(1);
    s.name = select.ColumnText(2);
    ATOLL_ASSIGN(s.state, ParseState(select.ColumnText(3)));
    s.reason = select.ColumnText(4);
    s.message = select.ColumnText(5);
    s.created_at_ms = select.ColumnInt(6);
    s.transition_at_ms = select.ColumnInt(7);
    s.size_bytes = static_cast<uint64_t>(select.ColumnInt(8));
    ATOLL_TRY(DecodeRestore(select.ColumnText(9), &s));
    snapshots.push_back(std::move(s));
  }
}

Status SnapshotStore::Insert(const Snapshot& s) {
  ATOLL_TRY(Store::CheckRoom(db_));
  ATOLL_ASSIGN(sqlite::Stmt insert, db_.Prepare("INSERT INTO snapshots VALUES "
                                                "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)"));
  insert.Bind(1, s.id)
      .Bind(2, s.sandbox_id)
      .Bind(3, s.name)
      .Bind(4, SnapshotStateName(s.state))
      .Bind(5, s.reason)
      .Bind(6, s.message)
      .Bind(7, s.created_at_ms)
      .Bind(8, s.transition_at_ms)
      .Bind(9, static_cast<int64_t>(s.size_bytes))
      .Bind(10, EncodeRestore(s));
  return insert.Run();
}

Status SnapshotStore::Update(const Snapshot& s) {
  ATOLL_ASSIGN(sqlite::Stmt update,
               db_.Prepare("UPDATE snapshots SET state=?2, reason=?3, message=?4, "
                           "transition_ms=?5, size=?6 WHERE id=?1"));
  update.Bind(1, s.id)
      .Bind(2, SnapshotStateName(s.state))
      .Bind(3, s.reason)
      .Bind(4, s.message)
      .Bind(5, s.transition_at_ms)
      .Bind(6, static_cast<int64_t>(s.size_bytes));
  return update.Run();
}

Status SnapshotStore::Remove(const std::string& id) {
  ATOLL_ASSIGN(sqlite::Stmt remove, db_.Prepare("DELETE FROM snapshots WHERE id=?1"));
  return remove.Bind(1, id).Run();
}

}  // namespace atl::sandbox
