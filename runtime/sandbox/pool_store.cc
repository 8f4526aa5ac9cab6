#include "runtime/sandbox/pool_store.h"

#include <nlohmann/json.hpp>

#include "runtime/sandbox/store.h"

namespace atl::sandbox {
namespace {

constexpr char kPoolSchema[] =
    "CREATE TABLE IF NOT EXISTS pools ("
    " name TEXT PRIMARY KEY,"
    " image TEXT NOT NULL,"
    " limits TEXT NOT NULL,"
    " buffer_min INTEGER NOT NULL,"
    " buffer_max INTEGER NOT NULL,"
    " pool_min INTEGER NOT NULL,"
    " pool_max INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL) WITHOUT ROWID";

Result<std::map<std::string, std::string>> DecodeLimits(const std::string& text,
                                                        const std::string& name) {
  std::map<std::string, std::string> limits;
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return Fail(Code::kInternal, "record of pool " + name + ": its limits");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      return Fail(Code::kInternal, "record of pool " + name + ": its limit " + key);
    }
    limits[key] = value.get<std::string>();
  }
  return limits;
}

}  // namespace

Result<std::unique_ptr<PoolStore>> PoolStore::Open(const std::string& path) {
  ATOLL_ASSIGN(sqlite::Db db,
               sqlite::Db::Open(path, {.log_bytes = Store::kLogBytes, .durable = true}));
  ATOLL_TRY(db.Exec(kPoolSchema));
  ATOLL_ASSIGN(sqlite::Stmt write,
               db.Prepare("INSERT OR REPLACE INTO pools (name, image, limits, buffer_min, "
                          "buffer_max, pool_min, pool_max, created_ms) VALUES "
                          "(?1,?2,?3,?4,?5,?6,?7,?8)"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM pools WHERE name=?1"));
  return std::unique_ptr<PoolStore>(
      new PoolStore(std::move(db), std::move(write), std::move(remove)));
}

Result<std::vector<PoolRecord>> PoolStore::Load() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT name, image, limits, buffer_min, buffer_max, pool_min, "
                           "pool_max, created_ms FROM pools"));
  std::vector<PoolRecord> records;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return records;
    PoolRecord record;
    record.name = select.ColumnText(0);
    record.image = select.ColumnText(1);
    ATOLL_ASSIGN(record.resource_limits, DecodeLimits(select.ColumnText(2), record.name));
    record.capacity.buffer_min = static_cast<uint32_t>(select.ColumnInt(3));
    record.capacity.buffer_max = static_cast<uint32_t>(select.ColumnInt(4));
    record.capacity.pool_min = static_cast<uint32_t>(select.ColumnInt(5));
    record.capacity.pool_max = static_cast<uint32_t>(select.ColumnInt(6));
    record.created_at_ms = select.ColumnInt(7);
    records.push_back(std::move(record));
  }
}

Status PoolStore::Write(const PoolRecord& record) {
  ATOLL_TRY(Store::CheckRoom(db_));
  write_.Bind(1, record.name)
      .Bind(2, record.image)
      .Bind(3, nlohmann::json(record.resource_limits).dump())
      .Bind(4, static_cast<int64_t>(record.capacity.buffer_min))
      .Bind(5, static_cast<int64_t>(record.capacity.buffer_max))
      .Bind(6, static_cast<int64_t>(record.capacity.pool_min))
      .Bind(7, static_cast<int64_t>(record.capacity.pool_max))
      .Bind(8, record.created_at_ms);
  return write_.Run();
}

Status PoolStore::Remove(const std::string& name) {
  remove_.Bind(1, name);
  return remove_.Run();
}

}  // namespace atl::sandbox
