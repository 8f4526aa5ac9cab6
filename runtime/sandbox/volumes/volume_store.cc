#include "runtime/sandbox/volumes/volume_store.h"

namespace atl::sandbox {
namespace {

Result<VolumeRecord::State> StateOf(int64_t number, const std::string& name) {
  using State = VolumeRecord::State;
  if (number < 0 || number > static_cast<int64_t>(State::kTrial)) {
    return Fail(Code::kInternal,
                "record of volume " + name + ": no state has the number " + std::to_string(number));
  }
  return static_cast<State>(number);
}

Result<VolumeRecord> DecodeVolume(const sqlite::Stmt& row) {
  VolumeRecord record;
  record.name = row.ColumnText(0);
  ATOLL_ASSIGN(record.state, StateOf(row.ColumnInt(1), record.name));
  record.created_at_ms = row.ColumnInt(2);
  record.owner = row.ColumnText(3);
  return record;
}

}  // namespace

Result<std::unique_ptr<VolumeStore>> VolumeStore::Open(const std::string& path) {
  ATOLL_ASSIGN(
      RecordTable table,
      RecordTable::Open(
          path, "volumes",
          {{"name", "TEXT"}, {"state", "INTEGER"}, {"created_ms", "INTEGER"}, {"owner", "TEXT"}}));
  return std::unique_ptr<VolumeStore>(new VolumeStore(std::move(table)));
}

Result<std::vector<VolumeRecord>> VolumeStore::Load() {
  return table_.Load(DecodeVolume);
}

Status VolumeStore::Write(const VolumeRecord& record) {
  // A new one; the rest is not larger than what it replaces.
  if (record.state == VolumeRecord::State::kMaking) ATOLL_TRY(table_.CheckRoom());
  return table_.Row()
      .Bind(1, record.name)
      .Bind(2, static_cast<int64_t>(record.state))
      .Bind(3, record.created_at_ms)
      .Bind(4, record.owner)
      .Run();
}

Status VolumeStore::Remove(const std::string& name) {
  return table_.Remove(name);
}

}  // namespace atl::sandbox
