#include "runtime/tenants/token_verifier.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::tenants {
namespace {

constexpr int64_t kTokenSecondUs = 1'000'000;
// The age at which keys are fetched again, so that a key that the provider has withdrawn ends.
constexpr int64_t kFreshUs = 300 * kTokenSecondUs;
constexpr int64_t kAskIntervalUs = 30 * kTokenSecondUs;
constexpr int64_t kSilenceUs = kTokenSecondUs;
// The longest wait for an expiry. Times of expiry are of the wall clock, which may be set.
constexpr int64_t kLongestWaitS = 60;
constexpr size_t kHolderIdDigits = 16;

bool Holds(const std::vector<std::string>& texts, const std::string& wanted) {
  return std::find(texts.begin(), texts.end(), wanted) != texts.end();
}

// Returns true if the rule is for such a token: issuer, audience and all of its claims.
bool Fits(const OidcRule& rule, const Claims& claims) {
  if (claims.issuer != rule.issuer || !Holds(claims.audiences, rule.audience)) return false;
  return std::all_of(rule.when.begin(), rule.when.end(), [&claims](const auto& wanted) {
    const auto found = claims.texts.find(wanted.first);
    return found != claims.texts.end() && Holds(found->second, wanted.second);
  });
}

}  // namespace

TokenVerifier::TokenVerifier(Loop& loop, const Clock& clock, Settings settings, Fetch fetch)
    : loop_(loop), clock_(clock), settings_(std::move(settings)), fetch_(std::move(fetch)) {}

TokenVerifier::~TokenVerifier() {
  loop_.Cancel(timer_);
}

bool TokenVerifier::HasExpired(int64_t expires_s) const {
  return expires_s + kTokenLeewaySeconds <= clock_.UnixMillis() / 1000;
}

std::optional<Identity> TokenVerifier::Judge(const Claims& claims) const {
  for (const TenantRule& one : rules_) {
    if (!Fits(one.rule, claims)) continue;
    const std::string tenant = IsOfTheHost(one.rule.role) ? std::string() : one.tenant;
    // Neither the issuer, nor the tenant, nor the role has a line break.
    const std::string text = "atoll holder\n" + claims.issuer + "\n" + tenant + "\n" +
                             RoleName(one.rule.role) + "\n" + claims.subject;
    return Identity{
        .key_id = "o_" + HexEncode(HmacSha256(settings_.secret, text)).substr(0, kHolderIdDigits),
        .tenant = tenant,
        .role = one.rule.role,
        .subject = claims.subject};
  }
  return std::nullopt;
}

void TokenVerifier::SetRules(std::vector<TenantRule> rules) {
  if (rules == rules_) return;
  rules_ = std::move(rules);
  refused_.clear();
  std::map<std::string, Issuer> next;
  for (const TenantRule& one : rules_) {
    Issuer& issuer = next[one.rule.issuer];
    const auto before = issuers_.find(one.rule.issuer);
    if (before != issuers_.end() && before->second.address == one.rule.jwks) {
      issuer = std::move(before->second);
      issuers_.erase(before);
    }
    issuer.address = one.rule.jwks;
  }
  issuers_.swap(next);
  // Tokens that wait for keys of former addresses are judged by what is there now.
  for (auto& [name, issuer] : next) {
    for (std::string& hash : issuer.waiting) to_verify_.push_back(std::move(hash));
  }
  std::map<std::string, Holder> holders;
  std::map<std::string, Known> known;
  holders.swap(holders_);
  known.swap(known_);
  for (auto& [hash, one] : known) {
    const auto claims = ReadClaims(one.payload);
    auto identity = claims ? Judge(*claims) : std::nullopt;
    if (identity) Add(hash, std::move(one), *std::move(identity));
  }
  for (const auto& [key_id, holder] : holders) {
    if (!holders_.contains(key_id) && on_end_) on_end_(key_id);
  }
  WatchExpiry();
  VerifyNext();
}

bool TokenVerifier::IsOfIssuer(std::string_view text) const {
  if (issuers_.empty() || !IsToken(text) || text.size() > kMaxToken) return false;
  if (known_.contains(Sha256(text))) return true;
  const auto head = ReadTokenHead(text);
  return head && issuers_.contains(head->issuer);
}

bool TokenVerifier::IsForUs(std::string_view text) const {
  if (issuers_.empty() || !IsToken(text)) return false;
  const auto head = ReadTokenHead(text);
  return head && std::any_of(rules_.begin(), rules_.end(), [&head](const TenantRule& one) {
           return one.rule.issuer == head->issuer && Holds(head->audiences, one.rule.audience);
         });
}

void TokenVerifier::Authenticate(std::string_view token, bool may_ask,
                                 std::function<void(Authenticated)> done) {
  if (token.size() > kMaxToken) return done(tl::unexpected(Denial::kUnknown));
  const std::string hash = Sha256(token);
  if (const auto known = known_.find(hash); known != known_.end()) {
    if (HasExpired(known->second.expires_s)) return done(tl::unexpected(Denial::kExpired));
    return done(holders_.at(known->second.key_id).identity);
  }
  if (const auto refused = refused_.find(hash);
      refused != refused_.end() && clock_.BootMicros() < refused->second.until_us) {
    return done(tl::unexpected(refused->second.denial));
  }
  if (!may_ask) return done(tl::unexpected(Denial::kUnknown));
  if (const auto joined = waiting_.find(hash); joined != waiting_.end()) {
    if (joined->second.done.size() >= kMostWaiting) {
      return done(tl::unexpected(Denial::kUnavailable));
    }
    joined->second.done.push_back(std::move(done));
    return;
  }
  auto head = ReadTokenHead(token);
  const auto issuer = head ? issuers_.find(head->issuer) : issuers_.end();
  if (issuer == issuers_.end()) {
    Refuse(hash, Denial::kUnknown, head ? "no rule has its issuer" : head.error().message(),
           clock_.BootMicros() + kAskIntervalUs);
    return done(tl::unexpected(Denial::kUnknown));
  }
  if (waiting_.size() >= kMostWaiting) return done(tl::unexpected(Denial::kUnavailable));
  Waiting& waiting = waiting_[hash];
  waiting = {std::string(token), *std::move(head), {}};
  waiting.done.push_back(std::move(done));
  if (WaitsForKeys(issuer->second, waiting.head)) {
    issuer->second.waiting.push_back(hash);
    Ask(issuer->first);
  } else {
    to_verify_.push_back(hash);
    VerifyNext();
  }
}

bool TokenVerifier::WaitsForKeys(const Issuer& issuer, const TokenHead& head) const {
  const int64_t now_us = clock_.BootMicros();
  const bool stale = issuer.keys == nullptr || now_us >= issuer.fetched_us + kFreshUs;
  if (!stale && issuer.keys->Find(head.key_id) != nullptr) return false;
  return issuer.asking || issuer.asked_us == 0 || now_us >= issuer.asked_us + kAskIntervalUs;
}

void TokenVerifier::Ask(const std::string& issuer) {
  if (std::exchange(issuers_.at(issuer).asking, true)) return;
  to_fetch_.push_back(issuer);
  FetchNext();
}

void TokenVerifier::FetchNext() {
  if (fetching_ || to_fetch_.empty()) return;
  const std::string name = to_fetch_.front();
  to_fetch_.pop_front();
  const auto issuer = issuers_.find(name);
  if (issuer == issuers_.end() || !issuer->second.asking) return FetchNext();
  fetching_ = true;
  issuer->second.asked_us = clock_.BootMicros();
  const std::string address = issuer->second.address;
  const auto keys = std::make_shared<Keys>(Fail(Code::kUnavailable, "not asked"));
  loop_.RunBlocking(
      [keys, address, fetch = fetch_] {
        const auto text = fetch(address);
        *keys = text ? KeySet::Parse(*text) : Keys(Fail(text.error()));
      },
      guard_([this, keys, name, address] {
        fetching_ = false;
        Took(name, address, std::move(*keys));
        FetchNext();
      }));
}

void TokenVerifier::Took(const std::string& name, const std::string& address, Keys keys) {
  if (!keys) {
    LogLine(LogLevel::kWarning, "cannot read the keys of an identity provider")
        .Add("address", address)
        .Add(keys.error());
  }
  const auto issuer = issuers_.find(name);
  if (issuer == issuers_.end() || issuer->second.address != address) return;
  issuer->second.asking = false;
  // A provider that nobody has asked since may be back.
  issuer->second.away_until_us = keys ? 0 : clock_.BootMicros() + kFreshUs;
  if (keys) {
    issuer->second.keys = *std::move(keys);
    issuer->second.fetched_us = clock_.BootMicros();
    refused_.clear();
  }
  for (std::string& hash : std::exchange(issuer->second.waiting, {})) {
    to_verify_.push_back(std::move(hash));
  }
  VerifyNext();
}

void TokenVerifier::VerifyNext() {
  while (!verifying_ && !to_verify_.empty()) {
    const std::string hash = to_verify_.front();
    to_verify_.pop_front();
    const Waiting& waiting = waiting_.at(hash);
    const auto issuer = issuers_.find(waiting.head.issuer);
    if (issuer == issuers_.end()) {
      Answer(hash, tl::unexpected(Denial::kUnknown));
      continue;
    }
    const int64_t usable_us =
        issuer->second.fetched_us + kFreshUs + settings_.max_stale_seconds * kTokenSecondUs;
    if (issuer->second.keys == nullptr || clock_.BootMicros() >= usable_us) {
      Answer(hash, tl::unexpected(Denial::kUnavailable));
      continue;
    }
    verifying_ = true;
    const auto payload = std::make_shared<Result<std::string>>(Fail(Code::kInternal, "not tried"));
    loop_.RunBlocking(
        [payload, token = waiting.token, head = waiting.head, keys = issuer->second.keys,
         now_s = clock_.UnixMillis() / 1000] { *payload = VerifyToken(token, head, *keys, now_s); },
        guard_([this, payload, hash] {
          verifying_ = false;
          Verified(hash, *payload);
          VerifyNext();
        }));
  }
}

void TokenVerifier::Verified(const std::string& hash, const Result<std::string>& payload) {
  if (payload) return Answer(hash, Remember(hash, *payload));
  const Code code = payload.error().code();
  const Denial denial = code == Code::kDeadlineExceeded ? Denial::kExpired : Denial::kUnknown;
  // A token with an unknown key id is worth a fetch as soon as one is allowed.
  const auto issuer = issuers_.find(waiting_.at(hash).head.issuer);
  const int64_t since_us = code == Code::kNotFound && issuer != issuers_.end()
                               ? issuer->second.asked_us
                               : clock_.BootMicros();
  Refuse(hash, denial, payload.error().message(), since_us + kAskIntervalUs);
  Answer(hash, tl::unexpected(denial));
}

Authenticated TokenVerifier::Remember(const std::string& hash, std::string payload) {
  const auto claims = ReadClaims(payload);
  auto identity = claims ? Judge(*claims) : std::nullopt;
  if (!identity) {
    Refuse(hash, Denial::kUnknown, "no rule fits its audience and claims",
           clock_.BootMicros() + kAskIntervalUs);
    return tl::unexpected(Denial::kUnknown);
  }
  // The token that expires first goes; its holder may show it again. A holder of many tokens gives
  // way to nobody's but its own.
  const auto earlier = [this](const std::string& a, const std::string& b) {
    return known_.at(a).expires_s < known_.at(b).expires_s;
  };
  const auto holder = holders_.find(identity->key_id);
  if (holder != holders_.end() && holder->second.tokens.size() >= kMostOfHolder) {
    const auto& own = holder->second.tokens;
    Forget(*std::min_element(own.begin(), own.end(), earlier));
  } else if (known_.size() >= kMostTokens) {
    Forget(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
             return a.second.expires_s < b.second.expires_s;
           })->first);
  }
  const Identity answer = *identity;
  Add(hash, {std::move(payload), claims->expires_s, {}}, *std::move(identity));
  WatchExpiry();
  return answer;
}

void TokenVerifier::Add(const std::string& hash, Known known, Identity identity) {
  known.key_id = identity.key_id;
  Holder& holder = holders_[known.key_id];
  holder.identity = std::move(identity);
  holder.expires_s = std::max(holder.expires_s, known.expires_s);
  holder.tokens.insert(hash);
  known_[hash] = std::move(known);
}

void TokenVerifier::Forget(std::string hash) {
  const auto known = known_.find(hash);
  const auto holder = holders_.find(known->second.key_id);
  known_.erase(known);
  holder->second.tokens.erase(hash);
  if (!holder->second.tokens.empty()) return;
  const std::string key_id = holder->first;
  holders_.erase(holder);
  if (on_end_) on_end_(key_id);
}

void TokenVerifier::Refuse(const std::string& hash, Denial denial, const std::string& why,
                           int64_t until_us) {
  // Emptied as a whole: an attacker can fill it, and then only has signatures checked again.
  if (refused_.size() >= kMostRefused) refused_.clear();
  refused_[hash] = {denial, until_us};
  const int64_t now_us = clock_.BootMicros();
  if (now_us < silent_until_us_) return;
  silent_until_us_ = now_us + kSilenceUs;
  LogLine(LogLevel::kInfo, "a token of an identity provider is refused").Add("why", why);
}

void TokenVerifier::Answer(const std::string& hash, const Authenticated& verdict) {
  const auto found = waiting_.find(hash);
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  for (const auto& done : waiting.done) done(verdict);
}

std::vector<TokenVerifier::KeyState> TokenVerifier::KeyStates() const {
  std::vector<KeyState> states;
  for (const auto& [name, issuer] : issuers_) {
    const int64_t now_us = clock_.BootMicros();
    KeyState& state = states.emplace_back();
    state.issuer = name;
    state.away = now_us < issuer.away_until_us;
    if (issuer.keys == nullptr) continue;
    state.age_seconds = (now_us - issuer.fetched_us) / kTokenSecondUs;
  }
  return states;
}

Authenticated TokenVerifier::Find(const std::string& key_id) const {
  const auto holder = holders_.find(key_id);
  if (holder == holders_.end()) return tl::unexpected(Denial::kUnknown);
  if (HasExpired(holder->second.expires_s)) return tl::unexpected(Denial::kExpired);
  return holder->second.identity;
}

void TokenVerifier::WatchExpiry() {
  loop_.Cancel(std::exchange(timer_, 0));
  const int64_t now_s = clock_.UnixMillis() / 1000;
  int64_t next_s = now_s + kLongestWaitS;
  std::vector<std::string> expired;
  for (const auto& [hash, known] : known_) {
    if (HasExpired(known.expires_s)) {
      expired.push_back(hash);
    } else {
      next_s = std::min(next_s, known.expires_s + kTokenLeewaySeconds);
    }
  }
  for (const std::string& hash : expired) Forget(hash);
  if (known_.empty()) return;
  // A second at least, because clocks are compared in whole seconds.
  timer_ =
      loop_.After(std::max<int64_t>(1, next_s - now_s) * kTokenSecondUs, [this] { WatchExpiry(); });
}

}  // namespace atl::tenants
