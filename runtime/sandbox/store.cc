#include "runtime/sandbox/store.h"

#include <nlohmann/json.hpp>

#include "netpolicy/policy_json.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr int64_t kSchemaVersion = 2;
// WITHOUT ROWID: one b-tree, so that a row is one page of the log and not two.
// `spec` is what never changes, as JSON: columns are only what is written again or looked at by
// SQL. A text state, so that `sqlite3 atoll.db` shows something to people.
constexpr char kSchema[] =
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

std::string EncodeSpec(const Sandbox& s) {
  json spec = {
      {"image", s.image},
      {"digest", s.image_digest},
      {"layers", s.layers},
      {"entrypoint", s.entrypoint},
      {"env", s.env},
      {"metadata", s.metadata},
      {"token", s.access_token},
      {"limits",
       {{"memory", s.limits.memory_bytes},
        {"swap", s.limits.swap_bytes},
        {"pids", s.limits.pids},
        {"cpu", s.limits.cpu_millis},
        {"rbps", s.limits.io_read_bps},
        {"wbps", s.limits.io_write_bps},
        {"riops", s.limits.io_read_iops},
        {"wiops", s.limits.io_write_iops},
        {"disk", s.limits.disk_bytes}}},
  };
  for (const wire::Volume& volume : s.volumes) {
    spec["volumes"].push_back({{"host", volume.kind == wire::Volume::Kind::kHost},
                               {"source", volume.source},
                               {"sub", volume.sub_path},
                               {"target", volume.target},
                               {"ro", volume.read_only}});
  }
  if (s.readonly_root) spec["readonly_root"] = true;
  if (!s.secure_token.empty()) spec["secure_token"] = s.secure_token;
  if (s.renew_by_seconds) spec["renew_by"] = *s.renew_by_seconds;
  // As text within the text: taking it apart and together again is most of what a large one costs.
  if (s.network.policy) spec["policy"] = netpolicy::PolicyToJson(*s.network.policy);
  if (!s.network.network.empty()) {
    spec["network"] = {{"name", s.network.network}, {"hostname", s.network.hostname}};
  }
  if (s.network.bytes_per_second != 0) spec["bandwidth"] = s.network.bytes_per_second;
  if (s.platform) spec["platform"] = {{"os", s.platform->os}, {"arch", s.platform->arch}};
  return spec.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status DecodeNetwork(const json& spec, Sandbox* s) {
  s->network.sandbox = s->id;
  if (const auto policy = spec.find("policy"); policy != spec.end()) {
    auto parsed = netpolicy::ParsePolicy(policy->get<std::string>());
    if (!parsed) {
      return Fail(std::move(parsed).error().Wrap("record of sandbox " + s->id));
    }
    s->network.policy = netpolicy::Share(*std::move(parsed));
  }
  if (const auto network = spec.find("network"); network != spec.end()) {
    network->at("name").get_to(s->network.network);
    network->at("hostname").get_to(s->network.hostname);
  }
  s->network.bytes_per_second = spec.value("bandwidth", uint64_t{0});
  return {};
}

Status DecodeSpec(const std::string& text, Sandbox* s) {
  try {
    const json spec = json::parse(text);
    spec.at("image").get_to(s->image);
    spec.at("digest").get_to(s->image_digest);
    spec.at("layers").get_to(s->layers);
    spec.at("entrypoint").get_to(s->entrypoint);
    spec.at("env").get_to(s->env);
    spec.at("metadata").get_to(s->metadata);
    spec.at("token").get_to(s->access_token);
    const json& limits = spec.at("limits");
    limits.at("memory").get_to(s->limits.memory_bytes);
    limits.at("swap").get_to(s->limits.swap_bytes);
    limits.at("pids").get_to(s->limits.pids);
    limits.at("cpu").get_to(s->limits.cpu_millis);
    limits.at("rbps").get_to(s->limits.io_read_bps);
    limits.at("wbps").get_to(s->limits.io_write_bps);
    limits.at("riops").get_to(s->limits.io_read_iops);
    limits.at("wiops").get_to(s->limits.io_write_iops);
    // Absent in records of before there was one.
    s->limits.disk_bytes = limits.value("disk", uint64_t{0});
    s->readonly_root = spec.value("readonly_root", false);
    s->secure_token = spec.value("secure_token", std::string());
    ATOLL_TRY(DecodeNetwork(spec, s));
    if (const auto volumes = spec.find("volumes"); volumes != spec.end()) {
      for (const json& item : *volumes) {
        wire::Volume& volume = s->volumes.emplace_back();
        if (item.at("host").get<bool>()) volume.kind = wire::Volume::Kind::kHost;
        item.at("source").get_to(volume.source);
        item.at("sub").get_to(volume.sub_path);
        item.at("target").get_to(volume.target);
        item.at("ro").get_to(volume.read_only);
      }
    }
    if (const auto by = spec.find("renew_by"); by != spec.end()) {
      s->renew_by_seconds = by->get<int64_t>();
    }
    if (const auto platform = spec.find("platform"); platform != spec.end()) {
      s->platform = Platform{platform->at("os"), platform->at("arch")};
    }
  } catch (const json::exception& e) {
    return Fail(Code::kInternal, "record of sandbox " + s->id + ": " + e.what());
  }
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
  if (version < 1) ATOLL_TRY(db.Exec(kSchema));
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
    ATOLL_ASSIGN(s.state, ParseState(select.ColumnText(1)));
    s.reason = select.ColumnText(2);
    s.message = select.ColumnText(3);
    s.transition_at_ms = select.ColumnInt(4);
    s.slot = static_cast<uint32_t>(select.ColumnInt(5));
    s.created_at_ms = select.ColumnInt(6);
    if (!select.ColumnIsNull(7)) s.expires_at_ms = select.ColumnInt(7);
    ATOLL_TRY(DecodeSpec(select.ColumnText(8), &s));
    sandboxes.push_back(std::move(s));
  }
}

Status Store::Insert(const Sandbox& s, const std::optional<KeyRecord>& key) {
  ATOLL_TRY(KeepRoom(kRoomForChanges));
  std::optional<sqlite::Transaction> both;
  if (key) {
    ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
    both.emplace(std::move(transaction));
    ATOLL_TRY(InsertKey(*key));
  }
  BindMoving(insert_, s);
  insert_.Bind(8, s.created_at_ms).Bind(9, EncodeSpec(s));
  ATOLL_TRY(insert_.Run());
  if (both) ATOLL_TRY(both->Commit());
  Wrote();
  return {};
}

Status Store::InsertKey(const KeyRecord& key) {
  ATOLL_ASSIGN(sqlite::Stmt insert,
               db_.Prepare("INSERT INTO idempotency_keys (key, fingerprint, sandbox, made_ms) "
                           "VALUES (?1,?2,?3,?4)"));
  insert.Bind(1, key.key).Bind(2, key.fingerprint).Bind(3, key.sandbox_id).Bind(4, key.made_ms);
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
    keys.push_back(
        {select.ColumnText(0), select.ColumnText(1), select.ColumnText(2), select.ColumnInt(3)});
  }
}

Status Store::UpdateSpec(const Sandbox& s) {
  ATOLL_TRY(KeepRoom(kRoomForEnds));
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
