#include "runtime/sandbox/store/store.h"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>

#include "netpolicy/policy/policy_json.h"
#include "runtime/base/json_text.h"
#include "runtime/sandbox/record/record_fields.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr int64_t kSchemaVersion = 2;
// WITHOUT ROWID: one b-tree, so that a row is one page of the log and not two.
// `spec` is what never changes, as JSON: columns are only what is written again or looked at by
// SQL. A text state, so that `sqlite3 atoll.db` shows something to people.
constexpr char kSandboxSchema[] =
    "CREATE TABLE sandboxes ("
    " id TEXT PRIMARY KEY,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " transition_ms INTEGER NOT NULL,"
    " slot INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " expires_ms INTEGER,"
    " spec TEXT NOT NULL) WITHOUT ROWID";
// Numbered, so that the oldest can be dropped without a look at the others.
constexpr char kKeySchema[] =
    "CREATE TABLE idempotency_keys ("
    " number INTEGER PRIMARY KEY,"
    " key TEXT NOT NULL,"
    " fingerprint TEXT NOT NULL,"
    " sandbox TEXT NOT NULL,"
    " made_ms INTEGER NOT NULL)";
// A write that moves the log does so with two fsyncs of 10 ms. A pool thread does it earlier; the
// size of the log is the bound if that one is stuck, or never done because writes do not stop.
constexpr int kWritesPerCheckpoint = 500;
constexpr sqlite::Options kOptions = {.log_bytes = Store::kLogBytes};

// Writes what is const and reads what is not. Throws what nlohmann/json throws.
class SpecJson {
 public:
  // Both borrowed. `status`: what is wrong besides.
  SpecJson(json* object, Status* status) : object_(*object), status_(*status) {}

  template <typename T>
  void Required(const char* name, T& value) {
    if constexpr (std::is_const_v<T>) {
      used_ = used_ || value != T{};
      Value(object_[name], value);
    } else {
      Value(object_.at(name), value);
    }
  }
  template <typename T>
  void Added(const char* name, T& value) {
    if (std::is_const_v<T> || object_.contains(name)) Required(name, value);
  }
  template <typename T>
  void Optional(const char* name, T& value) {
    if (!std::is_const_v<T> || value != T{}) Added(name, value);
  }
  template <typename T, typename Visit>
  void Group(const char* name, T& value, Visit visit) {
    json object = object_.value(name, json::object());
    if (!std::is_const_v<T> && object.empty()) return;
    SpecJson group(&object, &status_);
    visit(group, value);
    if (group.used_) object_[name] = std::move(object);
  }

 private:
  template <typename T>
  void Value(json& node, T& value) {
    constexpr bool kWrites = std::is_const_v<T>;
    using Plain = std::remove_const_t<T>;
    if constexpr (requires { VisitMembers(value, *this); }) {
      SpecJson members(&node, &status_);
      VisitMembers(value, members);
    } else if constexpr (requires { value.has_value(); }) {
      if constexpr (!kWrites) value.emplace();
      Value(node, *value);
    } else if constexpr (std::is_same_v<Plain, std::vector<wire::Volume>> ||
                         std::is_same_v<Plain, std::vector<wire::Hook>>) {
      if constexpr (!kWrites) value.resize(node.size());
      for (size_t i = 0; i < value.size(); ++i) Value(node[i], value[i]);
    } else if constexpr (std::is_same_v<Plain, wire::Volume::Kind>) {
      using enum wire::Volume::Kind;
      // A boolean, whether it is a host path, since there were no others; of a bucket it is a word.
      if constexpr (kWrites) {
        node = value == kObjects ? json("objects") : json(value == kHost);
      } else {
        value = node.is_string() ? kObjects : node.get<bool>() ? kHost : kNamed;
      }
    } else if constexpr (std::is_same_v<Plain, netpolicy::SharedPolicy>) {
      if constexpr (kWrites) node = netpolicy::PolicyToJson(*value);
      if constexpr (!kWrites) ReadPolicy(node.get<std::string>(), value);
    } else if constexpr (kWrites) {
      node = value;
    } else {
      node.get_to(value);
    }
  }
  void ReadPolicy(const std::string& text, netpolicy::SharedPolicy& policy) {
    auto parsed = netpolicy::ParsePolicy(text);
    if (parsed) {
      policy = netpolicy::Share(*std::move(parsed));
    } else {
      status_ = Fail(std::move(parsed).error());
    }
  }

  json& object_;
  Status& status_;
  bool used_ = false;  // something but defaults was written
};

std::string EncodeSpec(const Sandbox& s) {
  json spec;
  Status written;
  SpecJson io(&spec, &written);
  VisitSpec(s, io);
  return JsonText(spec);
}

Status DecodeSpec(const std::string& text, Sandbox* s) {
  Status read;
  // What every host keeps was so before records told of it.
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.keeper == cgroup::LimitKeeper::kSpawner) s->spec.limits.*field.value = field.usual;
  }
  try {
    if (auto spec = ParseJson(text)) {
      SpecJson io(&*spec, &read);
      VisitSpec(*s, io);
    } else {
      read = Fail(Code::kInternal, spec.error().message());
    }
  } catch (const json::exception& e) {
    read = Fail(Code::kInternal, e.what());
  }
  if (!read) return Fail(std::move(read).error().Wrap("record of sandbox " + s->id));
  s->spec.network.sandbox = s->id;
  return {};
}

void BindExpiry(sqlite::Stmt& statement, int index, const Sandbox& s) {
  if (s.expires_at_ms) {
    statement.Bind(index, *s.expires_at_ms);
  } else {
    statement.BindNull(index);
  }
}

Status Migrate(sqlite::Db& db) {
  ATOLL_ASSIGN(const int64_t version, db.UserVersion());
  if (version > kSchemaVersion) {
    return Fail(Code::kFailedPrecondition, "the store has schema " + std::to_string(version) +
                                               ", written by a newer Atoll; this one knows " +
                                               std::to_string(kSchemaVersion));
  }
  if (version == kSchemaVersion) return {};
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db));
  if (version < 1) ATOLL_TRY(db.Exec(kSandboxSchema));
  if (version < 2) ATOLL_TRY(db.Exec(kKeySchema));
  ATOLL_TRY(db.SetUserVersion(kSchemaVersion));
  return transaction.Commit();
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, Loop* loop) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, kOptions));
  if (auto migrated = Migrate(db); !migrated) return Fail(std::move(migrated).error().Wrap(path));
  ATOLL_ASSIGN(sqlite::Stmt insert,
               db.Prepare("INSERT INTO sandboxes (state, reason, message, transition_ms, slot, "
                          "expires_ms, id, created_ms, spec) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)"));
  ATOLL_ASSIGN(sqlite::Stmt update,
               db.Prepare("UPDATE sandboxes SET state=?1, reason=?2, message=?3, transition_ms=?4, "
                          "slot=?5, expires_ms=?6 WHERE id=?7"));
  ATOLL_ASSIGN(sqlite::Stmt remove, db.Prepare("DELETE FROM sandboxes WHERE id=?1"));
  std::unique_ptr<Store> store(
      new Store(std::move(db), std::move(insert), std::move(update), std::move(remove)));
  store->path_ = path;
  store->loop_ = loop;
  // A full disk keeps no daemon from starting; Check says so.
  [[maybe_unused]] const Status kept = store->KeepRoom(0);
  return store;
}

Status Store::KeepRoom(int64_t least) {
  // Who moves the log cuts the file to what it knows of.
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
  ATOLL_TRY(db_.SetUserVersion(kSchemaVersion));
  return transaction.Commit();
}

namespace {
// Parameters 1 to 7, the same in INSERT and UPDATE.
void BindMoving(sqlite::Stmt& statement, const Sandbox& s) {
  statement.Bind(1, StateName(s.state))
      .Bind(2, s.reason)
      .Bind(3, s.message)
      .Bind(4, s.transition_at_ms)
      .Bind(5, static_cast<int64_t>(s.slot));
  BindExpiry(statement, 6, s);
  statement.Bind(7, s.id);
}
}  // namespace

Status Store::CheckRoom(sqlite::Db& db) {
  ATOLL_ASSIGN(const int64_t room, db.Room());
  if (room >= kRoomForChanges) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "the file system of <data_dir>/state is full: make room there", ENOSPC));
}

Result<std::vector<Sandbox>> Store::Load() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT id, state, reason, message, transition_ms, slot, created_ms, "
                           "expires_ms, spec FROM sandboxes"));
  std::vector<Sandbox> sandboxes;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) return sandboxes;
    Sandbox s;
    s.id = select.ColumnText(0);
    s.reason = select.ColumnText(2);
    s.message = select.ColumnText(3);
    s.transition_at_ms = select.ColumnInt(4);
    s.slot = static_cast<uint32_t>(select.ColumnInt(5));
    ATOLL_ASSIGN(s.state, ParseState(select.ColumnText(1), s.slot));
    s.created_at_ms = select.ColumnInt(6);
    if (!select.ColumnIsNull(7)) s.expires_at_ms = select.ColumnInt(7);
    ATOLL_TRY(DecodeSpec(select.ColumnText(8), &s));
    // It had run before.
    if (s.state == State::kAwaiting && !s.host_id.empty()) s.state = State::kReplacing;
    sandboxes.push_back(std::move(s));
  }
}

Status Store::Insert(std::span<const Sandbox> sandboxes, const std::optional<KeyRecord>& key) {
  ATOLL_TRY(KeepRoom(kRoomForChanges));
  std::optional<sqlite::Transaction> together;
  if (key || sandboxes.size() > 1) {
    ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
    together.emplace(std::move(transaction));
  }
  if (key) ATOLL_TRY(InsertKey(*key));
  for (const Sandbox& s : sandboxes) {
    BindMoving(insert_, s);
    insert_.Bind(8, s.created_at_ms).Bind(9, EncodeSpec(s));
    ATOLL_TRY(insert_.Run());
  }
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
  BindMoving(insert_, sandbox);
  insert_.Bind(8, sandbox.created_at_ms).Bind(9, EncodeSpec(sandbox));
  ATOLL_TRY(insert_.Run());
  ATOLL_TRY(together.Commit());
  Wrote();
  return {};
}

Status Store::InsertKey(const KeyRecord& key) {
  ATOLL_ASSIGN(sqlite::Stmt insert,
               db_.Prepare("INSERT INTO idempotency_keys (key, fingerprint, sandbox, made_ms) "
                           "VALUES (?1,?2,?3,?4)"));
  // Ids have no spaces.
  std::string sandboxes;
  for (const std::string& id : key.sandboxes) sandboxes += (sandboxes.empty() ? "" : " ") + id;
  insert.Bind(1, key.key).Bind(2, key.fingerprint).Bind(3, sandboxes).Bind(4, key.made_ms);
  ATOLL_TRY(insert.Run());
  ATOLL_ASSIGN(sqlite::Stmt prune,
               db_.Prepare("DELETE FROM idempotency_keys WHERE number <= ?1 OR made_ms < ?2"));
  prune.Bind(1, db_.LastInsertId() - static_cast<int64_t>(kMaxKeys))
      .Bind(2, key.made_ms - kKeyLifeMs);
  return prune.Run();
}

Result<std::vector<KeyRecord>> Store::LoadKeys() {
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare("SELECT key, fingerprint, sandbox, made_ms FROM idempotency_keys "
                           "ORDER BY number"));
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
  }
}

Status Store::RemoveKey(const std::string& key) {
  ATOLL_ASSIGN(sqlite::Stmt remove, db_.Prepare("DELETE FROM idempotency_keys WHERE key=?1"));
  return remove.Bind(1, key).Run();
}

Status Store::UpdateSpec(const Sandbox& s) {
  ATOLL_TRY(KeepRoom(kRoomForEnds));
  return WriteSpec(s);
}

Status Store::WriteSpec(const Sandbox& s) {
  ATOLL_ASSIGN(sqlite::Stmt update, db_.Prepare("UPDATE sandboxes SET spec=?1 WHERE id=?2"));
  update.Bind(1, EncodeSpec(s)).Bind(2, s.id);
  ATOLL_TRY(update.Run());
  if (db_.Changes() != 1) {
    return Fail(Code::kNotFound, "no record of sandbox " + s.id + " to update");
  }
  Wrote();
  return {};
}

Status Store::Update(const Sandbox& s) {
  BindMoving(update_, s);
  ATOLL_TRY(update_.Run());
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
  // A connection of its own, so that both threads may be at work; PASSIVE waits for nobody. What
  // fails is tried again after as many writes, and the late checkpoint reports it at last.
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
