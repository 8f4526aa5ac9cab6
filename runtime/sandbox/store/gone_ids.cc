#include "runtime/sandbox/store/gone_ids.h"

namespace atl::sandbox {
namespace {

// The daemon uses a trigger instead of a second statement in Store::Remove, so no code path that
// removes a record can forget the id. It makes the trigger anew at each start, because the text
// contains the number of kept ids. A sandbox is in the store only from its publication on, so ids
// that no client was told are not remembered.
std::string Trigger(int64_t kept) {
  return "DROP TRIGGER IF EXISTS remember_gone;"
         "CREATE TRIGGER remember_gone AFTER DELETE ON sandboxes BEGIN"
         " INSERT OR IGNORE INTO gone (id) VALUES (OLD.id);"
         " DELETE FROM gone WHERE number <= (SELECT MAX(number) FROM gone) - " +
         std::to_string(kept) + "; END";
}

}  // namespace

Result<std::unique_ptr<GoneIds>> GoneIds::Open(sqlite::Db& db, int64_t kept) {
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db));
  ATOLL_TRY(db.Exec(Trigger(kept)));
  ATOLL_TRY(transaction.Commit());
  ATOLL_ASSIGN(sqlite::Stmt find, db.Prepare("SELECT 1 FROM gone WHERE id=?1"));
  return std::unique_ptr<GoneIds>(new GoneIds(std::move(find)));
}

Result<bool> GoneIds::Contains(const std::string& id) {
  find_.Reset();
  find_.Bind(1, id);
  ATOLL_ASSIGN(const bool found, find_.Step());
  find_.Reset();
  return found;
}

}  // namespace atl::sandbox
