#include "runtime/tenants/key_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/base/json_text.h"
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

Result<std::unique_ptr<KeyStore>> KeyStore::Open(const std::string& path, const Clock& clock) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, {.log_bytes = 256 << 10, .durable = true}));
  std::unique_ptr<KeyStore> store(new KeyStore(std::move(db), clock));
  ATOLL_TRY(store->Prepare());
  ATOLL_TRY(store->Load());
  return store;
}

Status KeyStore::Prepare() {
  ATOLL_TRY(sqlite::Migrate(db_, kSteps));
  ATOLL_ASSIGN(write_, db_.Prepare("INSERT OR REPLACE INTO keys VALUES (?,?,?,?,?,?,?,?,?,?,?)"));
  ATOLL_ASSIGN(use_, db_.Prepare("UPDATE keys SET used=? WHERE id=?"));
  ATOLL_ASSIGN(remove_, db_.Prepare("DELETE FROM keys WHERE id=?"));
  return {};
}

Status KeyStore::Load() {
  ATOLL_ASSIGN(sqlite::Stmt rows,
               db_.Prepare("SELECT id,hash,tenant,role,name,creator,created,expires,revoked,used,"
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

Status KeyStore::Write(const KeyRecord& record) {
  return write_->Bind(1, record.id)
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
  ATOLL_TRY(Write(made.record));
  keys_.emplace(made.record.id, made.record);
  return made;
}

Status KeyStore::SetExpiry(const std::string& id, int64_t expires_at_ms) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return Fail(Code::kNotFound, "there is no key " + id.substr(0, 64));
  KeyRecord changed = found->second;
  changed.expires_at_ms = expires_at_ms;
  ATOLL_TRY(Write(changed));
  found->second = std::move(changed);
  return {};
}

Status KeyStore::Revoke(const std::string& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return Fail(Code::kNotFound, "there is no key " + id.substr(0, 64));
  if (found->second.revoked_at_ms != 0) return {};
  KeyRecord changed = found->second;
  changed.revoked_at_ms = clock_.UnixMillis();
  ATOLL_TRY(Write(changed));
  found->second = std::move(changed);
  return {};
}

Result<std::optional<std::string>> KeyStore::Adopter() {
  ATOLL_ASSIGN(sqlite::Stmt row, db_.Prepare("SELECT tenant FROM adopter"));
  ATOLL_ASSIGN(const bool found, row.Step());
  if (!found) return std::nullopt;
  return row.ColumnText(0);
}

Status KeyStore::SetAdopter(const std::string& tenant) {
  ATOLL_ASSIGN(sqlite::Stmt insert, db_.Prepare("INSERT INTO adopter VALUES (?)"));
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

Status KeyStore::WriteUses() {
  const int64_t now = clock_.UnixMillis();
  std::vector<std::string> old;
  for (const auto& [id, record] : keys_) {
    const int64_t ended = record.revoked_at_ms != 0 ? record.revoked_at_ms
                          : record.IsExpired(now)   ? record.expires_at_ms
                                                    : now;
    if (now - ended > kKeepEndedMs && old.size() < kUsesAtOnce) old.push_back(id);
  }
  if (used_.empty() && old.empty()) return {};
  ATOLL_ASSIGN(auto transaction, sqlite::Transaction::Begin(db_));
  const auto end =
      std::next(used_.begin(), static_cast<std::ptrdiff_t>(std::min(used_.size(), kUsesAtOnce)));
  for (auto id = used_.begin(); id != end; ++id) {
    const auto found = keys_.find(*id);
    if (found == keys_.end()) continue;
    ATOLL_TRY(use_->Bind(1, found->second.last_use_ms).Bind(2, found->first).Run());
  }
  for (const std::string& id : old) ATOLL_TRY(remove_->Bind(1, id).Run());
  ATOLL_TRY(transaction.Commit());
  used_.erase(used_.begin(), end);
  for (const std::string& id : old) keys_.erase(id);
  return {};
}

}  // namespace atl::tenants
