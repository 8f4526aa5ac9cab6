#include "runtime/sandbox/store/gone_ids.h"

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
std::string Trigger(int64_t kept) {
  return "DROP TRIGGER IF EXISTS remember_gone;"
         "CREATE TRIGGER remember_gone AFTER DELETE ON sandboxes BEGIN"
         " INSERT INTO gone (id, tenant) VALUES (OLD.id, OLD.tenant)"
         " ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant;"
         " DELETE FROM gone WHERE number <= (SELECT MAX(number) FROM gone) - " +
         std::to_string(kept) + "; END";
}

}  // namespace

Result<std::unique_ptr<GoneIds>> GoneIds::Open(sqlite::Db& db, int64_t kept) {
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db));
  ATOLL_TRY(db.Exec(Trigger(kept)));
  ATOLL_TRY(transaction.Commit());
  ATOLL_ASSIGN(sqlite::Stmt find, db.Prepare("SELECT tenant FROM gone WHERE id=?1"));
  return std::unique_ptr<GoneIds>(new GoneIds(std::move(find)));
}

Result<std::optional<std::string>> GoneIds::OwnerOf(const std::string& id) {
  find_.Reset();
  find_.Bind(1, id);
  ATOLL_ASSIGN(const bool found, find_.Step());
  std::optional<std::string> owner;
  if (found) owner = find_.ColumnText(0);
  find_.Reset();
  return owner;
}

}  // namespace atl::sandbox
