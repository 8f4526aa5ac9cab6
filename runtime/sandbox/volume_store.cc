#include "runtime/sandbox/volume_store.h"

#include "runtime/sandbox/store.h"

namespace atl::sandbox {
namespace {

constexpr char kVolumeSchema[] =
    "CREATE TABLE IF NOT EXISTS volumes ("
    " name TEXT PRIMARY KEY,"
    " state INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " owner TEXT NOT NULL) WITHOUT ROWID";

Result<VolumeRecord::State> StateOf(int64_t number, const std::string& name) {
  using State = VolumeRecord::State;
  if (number < 0 || number > static_cast<int64_t>(State::kTrial)) {
    return Fail(Code::kInternal,
                "record of volume " + name + ": no state has the number " + std::to_string(number));
  }
  return static_cast<State>(number);
}

}  // namespace

Result<std::unique_ptr<VolumeStore>> VolumeStore::Open(const std::string& path) {
  ATOLL_ASSIGN(sqlite::Db db,
               sqlite::Db::Open(path, {.log_bytes = Store::kLogBytes, .durable = true}));
  ATOLL_TRY(db.Exec(kVolumeSchema));
  ATOLL_ASSIGN(sqlite::Stmt write,
               db.Prepare("INSERT OR REPLACE INTO volumes (name, state, created_ms, owner) VALUES "
                          "(?1,?2,?3,?4)"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM volumes WHERE name=?1"));
  return std::unique_ptr<VolumeStore>(
      new VolumeStore(std::move(db), std::move(write), std::move(remove)));
}

Result<std::vector<VolumeRecord>> VolumeStore::Load() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT name, state, created_ms, owner FROM volumes"));
  std::vector<VolumeRecord> records;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return records;
    VolumeRecord record;
    record.name = select.ColumnText(0);
    ATOLL_ASSIGN(record.state, StateOf(select.ColumnInt(1), record.name));
    record.created_at_ms = select.ColumnInt(2);
    record.owner = select.ColumnText(3);
    records.push_back(std::move(record));
  }
}

Status VolumeStore::Write(const VolumeRecord& record) {
  // A new one; the rest is not larger than what it replaces.
  if (record.state == VolumeRecord::State::kMaking) ATOLL_TRY(CheckRoom());
  write_.Bind(1, record.name)
      .Bind(2, static_cast<int64_t>(record.state))
      .Bind(3, record.created_at_ms)
      .Bind(4, record.owner);
  return write_.Run();
}

Status VolumeStore::CheckRoom() {
  return Store::CheckRoom(db_);
}

Status VolumeStore::Remove(const std::string& name) {
  remove_.Bind(1, name);
  return remove_.Run();
}

}  // namespace atl::sandbox
