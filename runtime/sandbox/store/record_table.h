// One kind of record in the daemon's database, beside the sandboxes' own: a row each, found by the
// first column, with commits that survive power loss. What the columns mean is known to the store
// that has the table.
//
// Thread rule: on the loop. A write is one row and an fsync; such records come and go rarely.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::sandbox {

class RecordTable {
 public:
  struct Column {
    std::string_view name;
    std::string_view type;  // SQLite's: TEXT, INTEGER
  };

  // `path`: that of Store, which was opened before. The first column is the key.
  static Result<RecordTable> Open(const std::string& path, const std::string& table,
                                  std::initializer_list<Column> columns);

  // All rows, each by `decode`, which finds the columns in their order.
  template <typename Record>
  Result<std::vector<Record>> Load(Result<Record> (*decode)(const sqlite::Stmt& row)) {
    ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare(select_));
    std::vector<Record> records;
    for (;;) {
      ATOLL_ASSIGN(const bool is_there, row.Step());
      if (!is_there) return records;
      ATOLL_ASSIGN(Record record, decode(row));
      records.push_back(std::move(record));
    }
  }
  // Before a new one. On a full disk kResourceExhausted with ENOSPC.
  Status CheckRoom();
  // Inserts or replaces, once all columns are bound and it is run.
  sqlite::Stmt& Row() { return write_; }
  // A key that is not there is not an error.
  Status Remove(const std::string& key) { return remove_.Bind(1, key).Run(); }

 private:
  RecordTable(sqlite::Db db, std::string select, sqlite::Stmt write, sqlite::Stmt remove)
      : db_(std::move(db)),
        select_(std::move(select)),
        write_(std::move(write)),
        remove_(std::move(remove)) {}

  // Statements are finalised before their connection.
  sqlite::Db db_;
  std::string select_;
  sqlite::Stmt write_;
  sqlite::Stmt remove_;
};

}  // namespace atl::sandbox
