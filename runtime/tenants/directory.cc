#include "runtime/tenants/directory.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::tenants {
namespace {

constexpr int64_t kUseIntervalUs = 60'000'000;
// The longest wait for an expiry. Times of expiry are of the wall clock, which may be set.
constexpr int64_t kLongestWaitMs = 60'000;
constexpr size_t kIdDigits = 12;

}  // namespace

Directory::Directory(Parts parts)
    : parts_(std::move(parts)),
      tokens_(parts_.loop, parts_.clock,
              {.secret = parts_.secret, .max_stale_seconds = parts_.max_stale_seconds},
              parts_.fetch_keys) {
  expired_until_ms_ = parts_.clock.UnixMillis();
  if (parts_.provider) {
    parts_.provider->OnEnd([this](const std::string& key_id) { End(key_id); });
  }
  tokens_.OnEnd([this](const std::string& key_id) { End(key_id); });
  WatchExpiry();
  use_timer_ = parts_.loop.After(kUseIntervalUs, [this] { WriteUses(); });
}

Directory::~Directory() {
  parts_.loop.Cancel(expiry_timer_);
  parts_.loop.Cancel(use_timer_);
}

void Directory::Replace(TenantsFile file) {
  std::map<std::string, FileKey> next;
  std::map<std::string, std::string> ids;
  std::vector<TenantRule> rules;
  for (const Tenant& tenant : file.tenants) {
    for (const std::string& hash : tenant.key_hashes) {
      std::string id =
          "f_" + HexEncode(HmacSha256(parts_.secret, "atoll key id\n" + hash)).substr(0, kIdDigits);
      ids.emplace(id, hash);
      next.emplace(hash, FileKey{std::move(id), tenant.name});
    }
    for (const OidcRule& rule : tenant.oidc) rules.push_back({tenant.name, rule});
  }
  std::vector<std::string> ended;
  for (const auto& [hash, key] : file_keys_) {
    const auto now = next.find(hash);
    if (now == next.end() || now->second.tenant != key.tenant) ended.push_back(key.id);
  }
  const auto alive = [this](const KeyRecord& record) { return IdentityOf(record).has_value(); };
  std::vector<std::string> before;
  for (const KeyRecord* record : parts_.keys->All()) {
    if (alive(*record)) before.push_back(record->id);
  }
  file_keys_.swap(next);
  file_ids_.swap(ids);
  parts_.tenants.Replace(std::move(file.tenants));
  for (const std::string& id : before) {
    if (!alive(*parts_.keys->Find(id))) ended.push_back(id);
  }
  for (const std::string& id : ended) End(id);
  tokens_.SetRules(std::move(rules));
}

Authenticated Directory::IdentityOf(const KeyRecord& record) const {
  if (record.revoked_at_ms != 0) return tl::unexpected(Denial::kRevoked);
  if (record.IsExpired(parts_.clock.UnixMillis())) return tl::unexpected(Denial::kExpired);
  if (!record.tenant.empty() && !parts_.tenants.Find(record.tenant)) {
    return tl::unexpected(Denial::kTenantGone);
  }
  return Identity{.key_id = record.id,
                  .tenant = record.tenant,
                  .role = record.role,
                  .narrowing = record.narrowing};
}

Authenticated Directory::IdentityOf(const FileKey& key) const {
  return Identity{.key_id = key.id, .tenant = key.tenant, .role = Role::kDeveloper};
}

void Directory::Authenticate(std::string_view secret, bool may_ask,
                             std::function<void(Authenticated)> done) {
  if (const KeyRecord* record = parts_.keys->FindBySecret(secret)) {
    Authenticated identity = IdentityOf(*record);
    if (identity) parts_.keys->Use(record->id);
    return done(std::move(identity));
  }
  const std::string hash = HexEncode(Sha256(secret));
  if (const auto found = file_keys_.find(hash); found != file_keys_.end()) {
    return done(IdentityOf(found->second));
  }
  // The provider of keys never sees a token that its issuer's keys can judge.
  if (tokens_.IsOfIssuer(secret)) return tokens_.Authenticate(secret, may_ask, std::move(done));
  // A text of the store's form is never shown to the provider: it is a key of Atoll's own.
  if (!parts_.provider || IsStoredKey(secret)) return done(tl::unexpected(Denial::kUnknown));
  parts_.provider->Authenticate(secret, may_ask, std::move(done));
}

bool Directory::IsVouchedFor(std::string_view secret) const {
  return parts_.provider && !IsStoredKey(secret) && parts_.provider->HasVouchedFor(secret);
}

Authenticated Directory::Find(const std::string& key_id) const {
  if (const KeyRecord* record = parts_.keys->Find(key_id)) return IdentityOf(*record);
  if (const auto found = file_ids_.find(key_id); found != file_ids_.end()) {
    return IdentityOf(file_keys_.at(found->second));
  }
  Authenticated holder = tokens_.Find(key_id);
  if (holder || !parts_.provider) return holder;
  return parts_.provider->Find(key_id);
}

Result<NewKey> Directory::Make(const KeyRequest& wanted, const std::string& creator) {
  if (IsOfTheHost(wanted.role) != wanted.tenant.empty()) {
    return Fail(Code::kInvalidArgument,
                std::string("the role ") + RoleName(wanted.role) +
                    (wanted.tenant.empty() ? " belongs to a tenant: name it"
                                           : " reaches all tenants: make a key of the host"));
  }
  if (!wanted.tenant.empty() && !parts_.tenants.Find(wanted.tenant)) {
    return Fail(Code::kNotFound, "there is no tenant '" + wanted.tenant.substr(0, 64) + "'");
  }
  for (const std::string& route : wanted.narrowing.routes) ATOLL_TRY(CheckRouteRule(route));
  KeyRecord record{.tenant = wanted.tenant,
                   .role = wanted.role,
                   .name = wanted.name,
                   .creator = creator,
                   .narrowing = wanted.narrowing == Narrowing()
                                    ? nullptr
                                    : std::make_shared<const Narrowing>(wanted.narrowing)};
  if (wanted.lifetime_ms != 0) {
    record.expires_at_ms = parts_.clock.UnixMillis() + wanted.lifetime_ms;
  }
  auto made = parts_.keys->Make(std::move(record));
  if (made) WatchExpiry();
  return made;
}

std::vector<KeyRecord> Directory::KeysOf(const std::string& tenant) const {
  std::vector<KeyRecord> keys;
  for (const KeyRecord* record : parts_.keys->All()) {
    if (record->tenant == tenant) keys.push_back(*record);
  }
  return keys;
}

Status Directory::Revoke(const std::string& tenant, const std::string& key_id) {
  const KeyRecord* record = parts_.keys->Find(key_id);
  if (record == nullptr || record->tenant != tenant) {
    return Fail(Code::kNotFound, "there is no key '" + key_id.substr(0, 64) + "'");
  }
  const bool was_alive = record->IsAlive(parts_.clock.UnixMillis());
  ATOLL_TRY(parts_.keys->Revoke(key_id));
  if (was_alive) End(key_id);
  return {};
}

bool Directory::IsAdmin(const std::string& creator) const {
  // Ids of keys begin with "k_", "f_", "h_" or "o_".
  if (creator.starts_with("root")) return true;
  const auto identity = Find(creator);
  return identity && identity->role == Role::kAdmin;
}

Result<NewKey> Directory::Rotate(const std::string& tenant, const std::string& key_id,
                                 int64_t grace_ms, const std::string& creator) {
  const KeyRecord* found = parts_.keys->Find(key_id);
  const bool by_admin = IsAdmin(creator);
  if (found == nullptr || found->tenant != tenant ||
      (!by_admin && found->id != creator && found->creator != creator)) {
    return Fail(Code::kNotFound, "there is no key '" + key_id.substr(0, 64) + "'");
  }
  const KeyRecord old = *found;
  const int64_t now = parts_.clock.UnixMillis();
  if (!old.IsAlive(now)) {
    return Fail(Code::kFailedPrecondition, "key " + old.id + " has ended: make a new one");
  }
  KeyRecord next = old;
  next.creator = creator;
  if (old.expires_at_ms != 0) next.expires_at_ms = now + (old.expires_at_ms - old.created_at_ms);
  if (const int64_t most = now + kDefaultKeyDays * 24 * 3600 * 1000;
      !by_admin && (next.expires_at_ms == 0 || next.expires_at_ms > most)) {
    next.expires_at_ms = most;
  }
  ATOLL_ASSIGN(NewKey made, parts_.keys->Make(std::move(next)));
  const int64_t ends = now + grace_ms;
  if (grace_ms == 0) {
    ATOLL_TRY(parts_.keys->Revoke(old.id));
    End(old.id);
  } else if (old.expires_at_ms == 0 || old.expires_at_ms > ends) {
    ATOLL_TRY(parts_.keys->SetExpiry(old.id, ends));
  }
  WatchExpiry();
  return made;
}

Status Directory::Adopt(const std::string& tenant, const std::function<Status()>& adopt) {
  if (!parts_.tenants.Find(tenant)) {
    return Fail(Code::kNotFound, "tenants.adopt '" + tenant + "' is not in the tenants' file");
  }
  ATOLL_ASSIGN(const auto before, parts_.keys->Adopter());
  if (before) return {};
  ATOLL_TRY(adopt());
  return parts_.keys->SetAdopter(tenant);
}

void Directory::OnEnd(std::function<void(const std::string&)> ended) {
  on_end_.push_back(std::move(ended));
}

std::pair<size_t, size_t> Directory::CountKeys() const {
  std::pair<size_t, size_t> counts;
  for (const KeyRecord* record : parts_.keys->All()) {
    ++(IdentityOf(*record) ? counts.first : counts.second);
  }
  return counts;
}

void Directory::AddMetrics(const Directory* directory, MetricSet* metrics) {
  std::vector<TokenVerifier::KeyState> states;
  if (directory != nullptr) states = directory->tokens_.KeyStates();
  MetricFamily& ages = metrics->Gauge(
      "atoll_oidc_jwks_age_seconds",
      "Time since the keys of an identity provider were read. They are read when a token comes.",
      {"issuer"});
  for (const auto& state : states) {
    if (state.age_seconds) ages.Add(*state.age_seconds, {state.issuer});
  }
  MetricFamily& up = metrics->Gauge(
      "atoll_identity_provider_up",
      "0: the keys of an identity provider could not be read a moment ago.", {"issuer"});
  for (const auto& state : states) up.Add(state.away ? 0 : 1, {state.issuer});
  MetricFamily& provider = metrics->Gauge(
      "atoll_tenants_provider_up", "0: the HTTP provider of tenants did not answer a moment ago.");
  if (directory == nullptr || !directory->parts_.provider) return;
  provider.Add(directory->parts_.provider->is_away() ? 0 : 1);
}

std::string Directory::Trouble() const {
  // Addresses stay in the log, because anybody may read health.
  constexpr char kTail[] =
      " cannot be reached: known callers are served for tenants.max_stale_seconds, others are not; "
      "the daemon's log says why";
  if (parts_.provider && parts_.provider->is_away()) {
    return std::string("the provider of tenants") + kTail;
  }
  for (const TokenVerifier::KeyState& state : tokens_.KeyStates()) {
    if (state.away) return std::string("an identity provider") + kTail;
  }
  return {};
}

void Directory::End(const std::string& key_id) {
  LogLine(LogLevel::kInfo, "a key has ended").Add("key", key_id);
  parts_.loop.Post(guard_([this, key_id] {
    for (const auto& ended : on_end_) ended(key_id);
  }));
}

void Directory::WatchExpiry() {
  parts_.loop.Cancel(std::exchange(expiry_timer_, 0));
  const int64_t now = parts_.clock.UnixMillis();
  int64_t next = now + kLongestWaitMs;
  std::vector<std::string> expired;
  for (const KeyRecord* record : parts_.keys->All()) {
    if (record->expires_at_ms == 0 || record->revoked_at_ms != 0) continue;
    if (record->expires_at_ms > now) {
      next = std::min(next, record->expires_at_ms);
    } else if (record->expires_at_ms > expired_until_ms_) {
      expired.push_back(record->id);
    }
  }
  expired_until_ms_ = std::max(expired_until_ms_, now);
  for (const std::string& id : expired) End(id);
  expiry_timer_ = parts_.loop.After((next - now) * 1000, [this] { WatchExpiry(); });
}

void Directory::WriteUses() {
  parts_.keys->WriteUses();
  use_timer_ = parts_.loop.After(kUseIntervalUs, [this] { WriteUses(); });
}

}  // namespace atl::tenants
