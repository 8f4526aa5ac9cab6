#include "runtime/sandbox/store/store.h"

#include <cerrno>
#include <sstream>

#include "runtime/sandbox/record/record_fields.h"
#include "runtime/sandbox/store/record_text.h"
#include "runtime/sandbox/store/schema.h"

namespace atl::sandbox {
namespace {

// A checkpoint by a write costs two fsyncs of 10 ms. A pool thread runs it earlier. The WAL limit
// applies if that thread is stuck, or if it never finishes because writes do not pause.
constexpr int kWritesPerCheckpoint = 500;
constexpr sqlite::Options kOptions = {.log_bytes = Store::kLogBytes};

std::string EncodeMoves(const Sandbox& s) {
  return WriteRecord([&s](RecordWriter& io) { VisitMoves(s, io); });
}

Status Decode(const std::string& moves, const std::string& record, Sandbox* s) {
  ATOLL_TRY(ReadRecord(moves, [s](RecordReader& io) { VisitMoves(*s, io); }));
  ATOLL_TRY(DecodeRecord(record, s));
  s->spec.network.sandbox = s->id;
  s->spec.network.tenant = s->tenant;
  // A record with a host id had run before, so it is a rollback that waits for its start.
  if (s->state == State::kAwaiting && !s->host_id.empty()) s->state = State::kReplacing;
  return {};
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, Loop* loop) {
  ATOLL_ASSIGN(sqlite::Db db, OpenRecords(path, kOptions));
  ATOLL_ASSIGN(sqlite::Stmt insert,
               db.Prepare("INSERT INTO sandboxes (id, moves, record, tenant) VALUES "
                          "(?1,?2,?3,?4)"));
  ATOLL_ASSIGN(sqlite::Stmt update, db.Prepare("UPDATE sandboxes SET moves=?2 WHERE id=?1"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM sandboxes WHERE id=?1"));
  std::unique_ptr<Store> store(
      new Store(std::move(db), std::move(insert), std::move(update), std::move(remove)));
  store->path_ = path;
  store->loop_ = loop;
  // A full disk must not keep a daemon from starting; Check reports it.
  [[maybe_unused]] const Status kept = store->KeepRoom(0);
  return store;
}

Status Store::KeepRoom(int64_t least) {
  // While a checkpoint is in flight, room is not reserved: the checkpoint truncates the file to the
  // size that it knows.
  const Status kept = *checkpointing_ ? Status() : db_.KeepRoom(kRoom);
  if (kept && !*checkpointing_) return {};
  ATOLL_ASSIGN(const int64_t room, db_.Room());
  if (room >= least) return {};
  if (!kept) return kept;
  return Fail(Error(Code::kResourceExhausted, "the store's room is being made", ENOSPC));
}

Status Store::Check() {
  if (!*checkpointing_) ATOLL_TRY(db_.KeepRoom(kRoom));
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
  ATOLL_ASSIGN(const int64_t version, db_.UserVersion());
  ATOLL_TRY(db_.SetUserVersion(version));
  return transaction.Commit();
}

Status Store::CheckRoom(sqlite::Db& db) {
  ATOLL_ASSIGN(const int64_t room, db.Room());
  if (room >= kRoomForChanges) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "the file system of <data_dir>/state is full: make room there", ENOSPC));
}

Result<std::vector<Sandbox>> Store::Load() {
  ATOLL_ASSIGN(sqlite::Stmt select, db_.Prepare("SELECT id, moves, record FROM sandboxes"));
  std::vector<Sandbox> sandboxes;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return sandboxes;
    Sandbox s;
    s.id = select.ColumnText(0);
    if (Status read = Decode(select.ColumnText(1), select.ColumnText(2), &s); !read) {
      return Fail(std::move(read).error().Wrap("record of sandbox " + s.id));
    }
    sandboxes.push_back(std::move(s));
  }
}

Result<bool> Store::Has(const std::string& id) {
  ATOLL_ASSIGN(sqlite::Stmt find, db_.Prepare("SELECT 1 FROM sandboxes WHERE id=?1"));
  return find.Bind(1, id).Step();
}

Result<size_t> Store::Adopt(const std::string& tenant) {
  ATOLL_ASSIGN(std::vector<Sandbox> sandboxes, Load());
  // A member of a template's stock has no client yet.
  std::erase_if(sandboxes,
                [](const Sandbox& sandbox) { return !sandbox.tenant.empty() || sandbox.stocked; });
  ATOLL_TRY(KeepRoom(kRoomForChanges));
  ATOLL_ASSIGN(sqlite::Transaction together, sqlite::Transaction::Begin(db_));
  for (Sandbox& sandbox : sandboxes) {
    sandbox.tenant = tenant;
    ATOLL_TRY(WriteSpec(sandbox));
  }
  ATOLL_TRY(together.Commit());
  return sandboxes.size();
}

Status Store::Insert(std::span<const Sandbox> sandboxes, const std::optional<KeyRecord>& key) {
  ATOLL_TRY(KeepRoom(kRoomForChanges));
  std::optional<sqlite::Transaction> together;
  if (key || sandboxes.size() > 1) {
    ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
    together.emplace(std::move(transaction));
  }
  if (key) ATOLL_TRY(InsertKey(*key));
  for (const Sandbox& s : sandboxes) ATOLL_TRY(InsertRow(s));
  if (together) ATOLL_TRY(together->Commit());
  Wrote();
  return {};
}

Status Store::Reinsert(const Sandbox& sandbox, const std::optional<KeyRecord>& key) {
  ATOLL_TRY(KeepRoom(kRoomForChanges));
  ATOLL_ASSIGN(sqlite::Transaction together, sqlite::Transaction::Begin(db_));
  if (key) ATOLL_TRY(InsertKey(*key));
  remove_.Bind(1, sandbox.id);
  ATOLL_TRY(remove_.Run());
  ATOLL_TRY(InsertRow(sandbox));
  ATOLL_TRY(together.Commit());
  Wrote();
  return {};
}

Status Store::InsertRow(const Sandbox& s) {
  return insert_.Bind(1, s.id)
      .Bind(2, EncodeMoves(s))
      .Bind(3, EncodeRecord(s))
      .Bind(4, s.tenant)
      .Run();
}

Status Store::InsertKey(const KeyRecord& key) {
  ATOLL_ASSIGN(sqlite::Stmt insert,
               db_.Prepare("INSERT INTO idempotency_keys (key, fingerprint, sandbox, made_ms, "
                           "tenant) VALUES (?1,?2,?3,?4,?5)"));
  // Ids contain no spaces.
  std::string sandboxes;
  for (const std::string& id : key.sandboxes) sandboxes += (sandboxes.empty() ? "" : " ") + id;
  insert.Bind(1, key.key)
      .Bind(2, key.fingerprint)
      .Bind(3, sandboxes)
      .Bind(4, key.made_ms)
      .Bind(5, key.tenant);
  ATOLL_TRY(insert.Run());
  ATOLL_ASSIGN(sqlite::Stmt prune,
               db_.Prepare("DELETE FROM idempotency_keys WHERE number <= ?1 OR made_ms < ?2"));
  prune.Bind(1, db_.LastInsertId() - static_cast<int64_t>(kMaxKeys))
      .Bind(2, key.made_ms - kKeyLifeMs);
  return prune.Run();
}

Result<std::vector<KeyRecord>> Store::LoadKeys() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT key, fingerprint, sandbox, made_ms, tenant FROM "
                           "idempotency_keys ORDER BY number"));
  std::vector<KeyRecord> keys;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return keys;
    KeyRecord& key = keys.emplace_back();
    key.key = select.ColumnText(0);
    key.fingerprint = select.ColumnText(1);
    std::istringstream ids(select.ColumnText(2));
    for (std::string id; ids >> id;) key.sandboxes.push_back(id);
    key.made_ms = select.ColumnInt(3);
    key.tenant = select.ColumnText(4);
  }
}

Status Store::RemoveKey(const std::string& tenant, const std::string& key) {
  ATOLL_ASSIGN(sqlite::Stmt remove,
               db_.Prepare("DELETE FROM idempotency_keys WHERE key=?1 AND tenant=?2"));
  return remove.Bind(1, key).Bind(2, tenant).Run();
}

Status Store::UpdateSpec(const Sandbox& s) {
  ATOLL_TRY(KeepRoom(kRoomForEnds));
  return WriteSpec(s);
}

Status Store::WriteSpec(const Sandbox& s) {
  ATOLL_ASSIGN(sqlite::Stmt update,
               db_.Prepare("UPDATE sandboxes SET record=?2, tenant=?3 WHERE id=?1"));
  ATOLL_TRY(update.Bind(1, s.id).Bind(2, EncodeRecord(s)).Bind(3, s.tenant).Run());
  if (db_.Changes() != 1) {
    return Fail(Code::kNotFound, "no record of sandbox " + s.id + " to update");
  }
  Wrote();
  return {};
}

Status Store::Update(const Sandbox& s) {
  ATOLL_TRY(update_.Bind(1, s.id).Bind(2, EncodeMoves(s)).Run());
  if (db_.Changes() != 1) {
    return Fail(Code::kNotFound, "no record of sandbox " + s.id + " to update");
  }
  Wrote();
  return {};
}

Status Store::Replace(const Sandbox& s, const std::optional<KeyRecord>& key) {
  ATOLL_TRY(KeepRoom(kRoomForEnds));
  ATOLL_ASSIGN(sqlite::Transaction together, sqlite::Transaction::Begin(db_));
  if (key) ATOLL_TRY(InsertKey(*key));
  ATOLL_TRY(WriteSpec(s));
  ATOLL_TRY(Update(s));
  return together.Commit();
}

Status Store::Remove(const std::string& id) {
  remove_.Bind(1, id);
  ATOLL_TRY(remove_.Run());
  Wrote();
  return {};
}

void Store::Wrote() {
  if (loop_ == nullptr || ++writes_ < kWritesPerCheckpoint || *checkpointing_) return;
  writes_ = 0;
  *checkpointing_ = true;
  // The checkpoint uses its own connection, so both threads can work at once; PASSIVE waits for no
  // reader or writer. After a failure the pool tries again after as many writes, and finally the
  // checkpoint by a write reports the error.
  loop_->RunBlocking(
      [path = path_] {
        auto db = sqlite::Db::Open(path, kOptions);
        if (!db) return;
        [[maybe_unused]] const Status done = db->Exec("PRAGMA wal_checkpoint(PASSIVE)");
      },
      [running = checkpointing_] { *running = false; });
}

Status Store::RemoveAll() {
  return db_.Exec("DELETE FROM sandboxes; DELETE FROM idempotency_keys");
}

}  // namespace atl::sandbox
