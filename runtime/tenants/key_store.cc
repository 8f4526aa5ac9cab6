#include "runtime/tenants/key_store.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sha256.h"
#include "runtime/base/sys.h"
#include "runtime/tenants/quota_text.h"

namespace atl::tenants {
namespace {

constexpr std::string_view kPrefix = "atl_";
constexpr std::string_view kIdPrefix = "k_";
constexpr size_t kIdSize = 8;
constexpr size_t kSecretBytes = 32;
constexpr size_t kSecretSize = 43;  // base64url of kSecretBytes, without padding
constexpr std::string_view kIdLetters = "abcdefghijklmnopqrstuvwxyz234567";

Status CreateTable(sqlite::Db& db) {
  return db.Exec(
      "CREATE TABLE keys (id TEXT PRIMARY KEY, hash BLOB NOT NULL, tenant TEXT NOT NULL, "
      "role TEXT NOT NULL, name TEXT NOT NULL, creator TEXT NOT NULL, created INTEGER NOT NULL, "
      "expires INTEGER NOT NULL, revoked INTEGER NOT NULL, used INTEGER NOT NULL, "
      "narrowing TEXT NOT NULL) WITHOUT ROWID;");
}

Status CreateAdopter(sqlite::Db& db) {
  return db.Exec("CREATE TABLE adopter (tenant TEXT PRIMARY KEY) WITHOUT ROWID;");
}

constexpr sqlite::SchemaStep kSteps[] = {CreateTable, CreateAdopter};

std::string NewId() {
  std::string id;
  for (const char byte : sys::RandomBytes(kIdSize)) {
    id.push_back(kIdLetters[static_cast<unsigned char>(byte) % kIdLetters.size()]);
  }
  return id;
}

std::string NarrowingText(const Narrowing* narrowing) {
  if (narrowing == nullptr) return {};
  return JsonText({{"routes", narrowing->routes},
                   {"images", narrowing->images},
                   {"max", QuotaTexts(narrowing->max)}});
}

Result<std::shared_ptr<const Narrowing>> ParseNarrowing(const std::string& text) {
  if (text.empty()) return std::shared_ptr<const Narrowing>();
  const auto damaged = [] { return Fail(Code::kInternal, "a key's narrowing is damaged"); };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return damaged();
  const auto narrowing = std::make_shared<Narrowing>();
  for (const auto& [name, list] :
       {std::pair("routes", &narrowing->routes), std::pair("images", &narrowing->images)}) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_array()) return damaged();
    for (const auto& item : *found) {
      if (!item.is_string()) return damaged();
      list->push_back(item.get<std::string>());
    }
  }
  const auto max = json.find("max");
  if (max == json.end() || !max->is_object()) return damaged();
  for (const auto& [name, value] : max->items()) {
    if (!value.is_string()) return damaged();
    ATOLL_TRY(SetQuota(name, value.get<std::string>(), &narrowing->max));
  }
  return std::shared_ptr<const Narrowing>(narrowing);
}

}  // namespace

bool IsStoredKey(std::string_view text) {
  return text.size() == kPrefix.size() + kIdSize + 1 + kSecretSize && text.starts_with(kPrefix) &&
         text[kPrefix.size() + kIdSize] == '_';
}

// The database of the keys. One thread at a time uses it.
struct KeyStore::Database {
  explicit Database(sqlite::Db opened) : db(std::move(opened)) {}
  Status Prepare();
  Status Write(const KeyRecord& record);
  // Writes a batch in one transaction, which survives a power cut.
  Status Write(const std::vector<KeyRecord>& changed, const std::vector<KeyRecord>& used,
               const std::vector<std::string>& old);

  sqlite::Db db;
  std::optional<sqlite::Stmt> write, use, remove;
};

Status KeyStore::Database::Prepare() {
  ATOLL_TRY(sqlite::Migrate(db, kSteps));
  ATOLL_ASSIGN(write, db.Prepare("INSERT OR REPLACE INTO keys VALUES (?,?,?,?,?,?,?,?,?,?,?)"));
  ATOLL_ASSIGN(use, db.Prepare("UPDATE keys SET used=? WHERE id=?"));
  ATOLL_ASSIGN(remove, db.Prepare("DELETE FROM keys WHERE id=?"));
  return {};
}

Status KeyStore::Database::Write(const KeyRecord& record) {
  return write->Bind(1, record.id)
      .BindBlob(2, record.hash)
      .Bind(3, record.tenant)
      .Bind(4, RoleName(record.role))
      .Bind(5, record.name)
      .Bind(6, record.creator)
      .Bind(7, record.created_at_ms)
      .Bind(8, record.expires_at_ms)
      .Bind(9, record.revoked_at_ms)
      .Bind(10, record.last_use_ms)
      .Bind(11, NarrowingText(record.narrowing.get()))
      .Run();
}

Status KeyStore::Database::Write(const std::vector<KeyRecord>& changed,
                                 const std::vector<KeyRecord>& used,
                                 const std::vector<std::string>& old) {
  ATOLL_ASSIGN(auto transaction, sqlite::Transaction::Begin(db));
  for (const KeyRecord& record : changed) ATOLL_TRY(Write(record));
  for (const KeyRecord& record : used) {
    ATOLL_TRY(use->Bind(1, record.last_use_ms).Bind(2, record.id).Run());
  }
  for (const std::string& id : old) ATOLL_TRY(remove->Bind(1, id).Run());
  return transaction.Commit();
}

Result<std::unique_ptr<KeyStore>> KeyStore::Open(const std::string& path, Loop& loop,
                                                 const Clock& clock) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, {.log_bytes = 256 << 10, .durable = true}));
  const auto database = std::make_shared<Database>(std::move(db));
  ATOLL_TRY(database->Prepare());
  std::unique_ptr<KeyStore> store(new KeyStore(loop, clock, database));
  ATOLL_TRY(store->Load());
  return store;
}

Status KeyStore::Load() {
  ATOLL_ASSIGN(
      sqlite::Stmt rows,
      database_->db.Prepare("SELECT id,hash,tenant,role,name,creator,created,expires,revoked,used,"
                            "narrowing FROM keys"));
  while (true) {
    ATOLL_ASSIGN(const bool more, rows.Step());
    if (!more) return {};
    KeyRecord record;
    record.id = rows.ColumnText(0);
    record.hash = rows.ColumnText(1);
    record.tenant = rows.ColumnText(2);
    // A role of a later release is none that this one may guess.
    const auto role = ParseRole(rows.ColumnText(3));
    if (!role) return Fail(Code::kInternal, "key " + record.id + " has an unknown role");
    record.role = *role;
    record.name = rows.ColumnText(4);
    record.creator = rows.ColumnText(5);
    record.created_at_ms = rows.ColumnInt(6);
    record.expires_at_ms = rows.ColumnInt(7);
    record.revoked_at_ms = rows.ColumnInt(8);
    record.last_use_ms = rows.ColumnInt(9);
    ATOLL_ASSIGN(record.narrowing, ParseNarrowing(rows.ColumnText(10)));
    std::string id = record.id;
    keys_.emplace(std::move(id), std::move(record));
  }
}

void KeyStore::Put(KeyRecord record) {
  Change change{.id = record.id, .before = {}};
  if (const auto found = keys_.find(record.id); found != keys_.end()) {
    change.before = std::move(found->second);
  }
  keys_[change.id] = std::move(record);
  next_.changes.push_back(std::move(change));
  Schedule();
}

void KeyStore::WhenDurable(std::function<void(Status)> done) {
  next_.waiting.push_back(std::move(done));
  Schedule();
}

void KeyStore::Schedule() {
  if (writing_ || std::exchange(scheduled_, true)) return;
  loop_.Post(guard_([this] {
    scheduled_ = false;
    WriteNext();
  }));
}

void KeyStore::WriteNext() {
  writing_ = true;
  now_ = std::exchange(next_, {});
  struct Job {
    std::vector<KeyRecord> changed, used;
    std::vector<std::string> old;
    Status status;
  };
  const auto job = std::make_shared<Job>();
  // A key may have been forgotten meanwhile.
  const auto add = [this](const std::string& id, std::vector<KeyRecord>* records) {
    const auto found = keys_.find(id);
    if (found != keys_.end()) records->push_back(found->second);
  };
  for (const Change& change : now_.changes) add(change.id, &job->changed);
  for (const std::string& id : now_.used) add(id, &job->used);
  job->old = now_.old;
  loop_.RunBlocking(
      [job, database = database_] {
        job->status = database->Write(job->changed, job->used, job->old);
      },
      guard_([this, job] { Written(job->status); }));
}

void KeyStore::Undo(const std::vector<Change>& changes) {
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    if (change->before) {
      keys_[change->id] = *change->before;
    } else {
      keys_.erase(change->id);
    }
  }
}

void KeyStore::Written(const Status& status) {
  writing_ = false;
  Batch done = std::exchange(now_, {});
  if (status) {
    for (const std::string& id : done.old) keys_.erase(id);
  } else {
    // Later changes build on those that failed, so they fail, too.
    Batch later = std::exchange(next_, {});
    Undo(later.changes);
    Undo(done.changes);
    used_.insert(done.used.begin(), done.used.end());
    used_.insert(later.used.begin(), later.used.end());
    std::move(later.waiting.begin(), later.waiting.end(), std::back_inserter(done.waiting));
  }
  if (!next_.changes.empty() || !next_.waiting.empty()) Schedule();
  for (const auto& waiting : done.waiting) waiting(status);
}

Result<NewKey> KeyStore::Make(KeyRecord wanted) {
  const auto of_tenant = std::count_if(keys_.begin(), keys_.end(), [&wanted](const auto& one) {
    return one.second.tenant == wanted.tenant;
  });
  // An admin gets a key however many the tenants have.
  const bool full = keys_.size() >= kMostKeys && !wanted.tenant.empty();
  if (full || static_cast<size_t>(of_tenant) >= kMostKeysOfTenant) {
    return Fail(Code::kResourceExhausted,
                "there are too many keys: revoke some; a revoked key is forgotten after 30 days");
  }
  std::string id = NewId();
  while (keys_.contains(std::string(kIdPrefix) + id)) id = NewId();
  NewKey made;
  made.secret = std::string(kPrefix) + id + "_" + EncodeBase64Url(sys::RandomBytes(kSecretBytes));
  made.record = std::move(wanted);
  made.record.id = std::string(kIdPrefix) + id;
  made.record.hash = Sha256(made.secret);
  made.record.created_at_ms = clock_.UnixMillis();
  made.record.last_use_ms = 0;
  made.record.revoked_at_ms = 0;
  Put(made.record);
  return made;
}

Status KeyStore::SetExpiry(const std::string& id, int64_t expires_at_ms) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return Fail(Code::kNotFound, "there is no key " + id.substr(0, 64));
  KeyRecord changed = found->second;
  changed.expires_at_ms = expires_at_ms;
  Put(std::move(changed));
  return {};
}

Status KeyStore::Revoke(const std::string& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return Fail(Code::kNotFound, "there is no key " + id.substr(0, 64));
  if (found->second.revoked_at_ms != 0) return {};
  KeyRecord changed = found->second;
  changed.revoked_at_ms = clock_.UnixMillis();
  Put(std::move(changed));
  return {};
}

Result<std::optional<std::string>> KeyStore::Adopter() {
  ATOLL_ASSIGN(sqlite::Stmt row, database_->db.Prepare("SELECT tenant FROM adopter"));
  ATOLL_ASSIGN(const bool found, row.Step());
  if (!found) return std::nullopt;
  return row.ColumnText(0);
}

Status KeyStore::SetAdopter(const std::string& tenant) {
  ATOLL_ASSIGN(sqlite::Stmt insert, database_->db.Prepare("INSERT INTO adopter VALUES (?)"));
  return insert.Bind(1, tenant).Run();
}

const KeyRecord* KeyStore::Find(const std::string& id) const {
  const auto found = keys_.find(id);
  return found == keys_.end() ? nullptr : &found->second;
}

const KeyRecord* KeyStore::FindBySecret(std::string_view secret) const {
  if (!IsStoredKey(secret)) return nullptr;
  const auto found =
      keys_.find(std::string(kIdPrefix).append(secret.substr(kPrefix.size(), kIdSize)));
  // Hashed for an unknown id as well, so that time does not tell which ids there are.
  static const std::string kNoHash(kSecretBytes, '\0');
  const bool same = SameSecret(Sha256(secret), found == keys_.end() ? kNoHash : found->second.hash);
  return same && found != keys_.end() ? &found->second : nullptr;
}

std::vector<const KeyRecord*> KeyStore::All() const {
  std::vector<const KeyRecord*> all;
  all.reserve(keys_.size());
  for (const auto& [id, record] : keys_) all.push_back(&record);
  return all;
}

void KeyStore::Use(const std::string& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  const int64_t now = clock_.UnixMillis();
  // A clock that was set back must not stop the record for hours.
  const int64_t since = now - found->second.last_use_ms;
  if (since >= 0 && since < kUseIntervalMs) return;
  found->second.last_use_ms = now;
  used_.insert(id);
}

void KeyStore::WriteUses() {
  const int64_t now = clock_.UnixMillis();
  // The disk is slower than a minute.
  if (!next_.used.empty() || !next_.old.empty()) return;
  std::vector<std::string> old;
  for (const auto& [id, record] : keys_) {
    const int64_t ended = record.revoked_at_ms != 0 ? record.revoked_at_ms
                          : record.IsExpired(now)   ? record.expires_at_ms
                                                    : now;
    if (now - ended > kKeepEndedMs && old.size() < kUsesAtOnce) old.push_back(id);
  }
  if (used_.empty() && old.empty()) return;
  next_.old = std::move(old);
  const auto end =
      std::next(used_.begin(), static_cast<std::ptrdiff_t>(std::min(used_.size(), kUsesAtOnce)));
  std::copy_if(used_.begin(), end, std::back_inserter(next_.used),
               [this](const std::string& id) { return keys_.contains(id); });
  used_.erase(used_.begin(), end);
  WhenDurable([](const Status& written) {
    if (written) return;
    LogLine(LogLevel::kWarning, "cannot write when keys were used").Add(written.error());
  });
}

}  // namespace atl::tenants
