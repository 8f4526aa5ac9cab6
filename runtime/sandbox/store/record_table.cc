#include "runtime/sandbox/store/record_table.h"

#include "runtime/sandbox/store/schema.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

Result<RecordRows> RecordRows::Open(const std::string& path, const std::string& table) {
  ATOLL_ASSIGN(sqlite::Db db, OpenRecords(path, {.log_bytes = Store::kLogBytes, .durable = true}));
  ATOLL_ASSIGN(sqlite::Stmt write,
               db.Prepare("INSERT OR REPLACE INTO " + table + " (id, record) VALUES (?1,?2)"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM " + table + " WHERE id=?1"));
  return RecordRows(std::move(db), table, std::move(write), std::move(remove));
}

Status RecordRows::Load(const std::function<Status(const std::string&, const std::string&)>& each) {
  ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare("SELECT id, record FROM " + table_));
  for (;;) {
    ATOLL_ASSIGN(const bool is_there, row.Step());
    if (!is_there) return {};
    const std::string id = row.ColumnText(0);
    if (Status read = each(id, row.ColumnText(1)); !read) {
      return Fail(std::move(read).error().Wrap("record " + id + " of " + table_));
    }
  }
}

Status RecordRows::CheckRoom() {
  return Store::CheckRoom(db_);
}

Status RecordRows::Write(const std::string& id, const std::string& text) {
  return write_.Bind(1, id).Bind(2, text).Run();
}

Status RecordRows::Remove(const std::string& id) {
  return remove_.Bind(1, id).Run();
}

}  // namespace atl::sandbox
