#include "runtime/sandbox/store/pool_store.h"

#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"

namespace atl::sandbox {
namespace {

Result<std::map<std::string, std::string>> DecodeLimits(const std::string& text,
                                                        const std::string& name) {
  std::map<std::string, std::string> limits;
  const auto object = JsonOrNull(text);
  if (!object.is_object()) return Fail(Code::kInternal, "record of pool " + name + ": its limits");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      return Fail(Code::kInternal, "record of pool " + name + ": its limit " + key);
    }
    limits[key] = value.get<std::string>();
  }
  return limits;
}

Result<PoolRecord> DecodePool(const sqlite::Stmt& row) {
  PoolRecord record;
  record.name = row.ColumnText(0);
  record.image = row.ColumnText(1);
  ATOLL_ASSIGN(record.resource_limits, DecodeLimits(row.ColumnText(2), record.name));
  record.capacity.buffer_min = static_cast<uint32_t>(row.ColumnInt(3));
  record.capacity.buffer_max = static_cast<uint32_t>(row.ColumnInt(4));
  record.capacity.pool_min = static_cast<uint32_t>(row.ColumnInt(5));
  record.capacity.pool_max = static_cast<uint32_t>(row.ColumnInt(6));
  record.created_at_ms = row.ColumnInt(7);
  return record;
}

}  // namespace

Result<std::unique_ptr<PoolStore>> PoolStore::Open(const std::string& path) {
  ATOLL_ASSIGN(RecordTable table, RecordTable::Open(path, "pools",
                                                    {{"name", "TEXT"},
                                                     {"image", "TEXT"},
                                                     {"limits", "TEXT"},
                                                     {"buffer_min", "INTEGER"},
                                                     {"buffer_max", "INTEGER"},
                                                     {"pool_min", "INTEGER"},
                                                     {"pool_max", "INTEGER"},
                                                     {"created_ms", "INTEGER"}}));
  return std::unique_ptr<PoolStore>(new PoolStore(std::move(table)));
}

Result<std::vector<PoolRecord>> PoolStore::Load() {
  return table_.Load(DecodePool);
}

Status PoolStore::Write(const PoolRecord& record) {
  ATOLL_TRY(table_.CheckRoom());
  return table_.Row()
      .Bind(1, record.name)
      .Bind(2, record.image)
      .Bind(3, JsonText(record.resource_limits))
      .Bind(4, static_cast<int64_t>(record.capacity.buffer_min))
      .Bind(5, static_cast<int64_t>(record.capacity.buffer_max))
      .Bind(6, static_cast<int64_t>(record.capacity.pool_min))
      .Bind(7, static_cast<int64_t>(record.capacity.pool_max))
      .Bind(8, record.created_at_ms)
      .Run();
}

Status PoolStore::Remove(const std::string& name) {
  return table_.Remove(name);
}

}  // namespace atl::sandbox
