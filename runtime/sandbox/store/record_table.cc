#include "runtime/sandbox/store/record_table.h"

#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

Result<RecordTable> RecordTable::Open(const std::string& path, const std::string& table,
                                      std::initializer_list<Column> columns) {
  std::string schema, names, parameters;
  for (const Column& column : columns) {
    const std::string comma = names.empty() ? "" : ", ";
    schema += comma + std::string(column.name) + " " + std::string(column.type) +
              (names.empty() ? " PRIMARY KEY" : " NOT NULL");
    names += comma + std::string(column.name);
    parameters += comma + "?";
  }
  ATOLL_ASSIGN(sqlite::Db db,
               sqlite::Db::Open(path, {.log_bytes = Store::kLogBytes, .durable = true}));
  ATOLL_TRY(db.Exec("CREATE TABLE IF NOT EXISTS " + table + " (" + schema + ") WITHOUT ROWID"));
  ATOLL_ASSIGN(sqlite::Stmt write, db.Prepare("INSERT OR REPLACE INTO " + table + " (" + names +
                                              ") VALUES (" + parameters + ")"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM " + table + " WHERE " +
                                               std::string(columns.begin()->name) + "=?1"));
  return RecordTable(std::move(db), "SELECT " + names + " FROM " + table, std::move(write),
                     std::move(remove));
}

Status RecordTable::CheckRoom() {
  return Store::CheckRoom(db_);
}

}  // namespace atl::sandbox
