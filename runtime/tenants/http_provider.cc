#include "runtime/tenants/http_provider.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/http/base_url.h"
#include "runtime/http/client.h"
#include "runtime/tenants/tenants_file.h"

namespace atl::tenants {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kDefaultTtl = 30;
constexpr int64_t kMostTtl = 3600;
// A refused key is not asked for again for this long, and neither is a provider that fails.
constexpr int64_t kRefusedUs = 10 * kSecondUs;
constexpr int64_t kDownUs = 5 * kSecondUs;
// A provider that nobody has asked since may be back.
constexpr int64_t kAwayUs = 300 * kSecondUs;
constexpr int64_t kRefreshUs = 5 * kSecondUs;
constexpr size_t kMaxKey = 512;
constexpr size_t kMaxAnswer = 64 << 10;
constexpr size_t kHttpIdDigits = 12;
constexpr int kBadRequest = 400;
constexpr int kUnauthorized = 401;
constexpr int kRequestTimeout = 408;
constexpr int kTooManyRequests = 429;
constexpr int kServerError = 500;

// Longer keys and other characters are not worth a question: proxies refuse them in many ways.
bool IsAskable(std::string_view key) {
  return !key.empty() && key.size() <= kMaxKey &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool SaysUnknown(int status) {
  return status >= kBadRequest && status < kServerError && status != kRequestTimeout &&
         status != kTooManyRequests;
}

}  // namespace

HttpProvider::HttpProvider(Loop& loop, const Clock& clock, TenantTable& tenants, Settings settings,
                           Ask ask)
    : loop_(loop),
      clock_(clock),
      tenants_(tenants),
      settings_(std::move(settings)),
      ask_(std::move(ask)) {
  timer_ = loop_.After(kRefreshUs, [this] { Refresh(); });
}

HttpProvider::~HttpProvider() {
  loop_.Cancel(timer_);
}

std::string HttpProvider::HashOf(std::string_view key) const {
  return HexEncode(HmacSha256(settings_.secret, "atoll key id\n" + std::string(key)));
}

Identity HttpProvider::IdentityOf(const Known& known) const {
  return {.key_id = known.id, .tenant = known.name_space, .role = Role::kDeveloper};
}

void HttpProvider::Authenticate(std::string_view key, bool may_ask,
                                std::function<void(Authenticated)> done) {
  if (!IsAskable(key)) return done(tl::unexpected(Denial::kUnknown));
  const std::string hash = HashOf(key);
  const int64_t now = clock_.BootMicros();
  const bool down = now < down_until_us_;
  if (const auto found = known_.find(hash); found != known_.end()) {
    found->second.used_us = now;
    if (now < found->second.fresh_until_us || (down && now < found->second.stale_until_us)) {
      return done(IdentityOf(found->second));
    }
  }
  if (const auto refused = refused_until_us_.find(hash);
      refused != refused_until_us_.end() && now < refused->second) {
    return done(tl::unexpected(Denial::kUnknown));
  }
  if (!may_ask) return done(tl::unexpected(Denial::kUnknown));
  if (down) return done(tl::unexpected(Denial::kUnavailable));
  Enqueue(hash, std::string(key), std::move(done));
}

bool HttpProvider::HasVouchedFor(std::string_view key) const {
  if (!IsAskable(key)) return false;
  const std::string hash = HashOf(key);
  return known_.contains(hash) || former_.contains(hash);
}

Authenticated HttpProvider::Find(const std::string& key_id) const {
  const auto hash = ids_.find(key_id);
  if (hash == ids_.end()) return tl::unexpected(Denial::kUnknown);
  const Known& known = known_.at(hash->second);
  // Refresh keeps the answer younger than that.
  if (clock_.BootMicros() >= known.stale_until_us) return tl::unexpected(Denial::kUnavailable);
  return IdentityOf(known);
}

void HttpProvider::Enqueue(const std::string& hash, std::string key,
                           std::function<void(Authenticated)> done) {
  const auto found = waiting_.find(hash);
  const size_t waiting = found == waiting_.end() ? waiting_.size() : found->second.done.size();
  if (waiting >= kMostWaiting) {
    if (done) done(tl::unexpected(Denial::kUnavailable));
    return;
  }
  Waiting& one = waiting_[hash];
  if (found == waiting_.end()) {
    one.key = std::move(key);
    queue_.push_back(hash);
  }
  if (done) one.done.push_back(std::move(done));
  AskNext();
}

Authenticated HttpProvider::StaleOf(const std::string& hash) const {
  const auto known = known_.find(hash);
  const bool usable = known != known_.end() && clock_.BootMicros() < known->second.stale_until_us;
  if (!usable) return tl::unexpected(Denial::kUnavailable);
  return IdentityOf(known->second);
}

void HttpProvider::AskNext() {
  if (asking_) return;
  // Nobody waits for a provider that has just failed.
  while (clock_.BootMicros() < down_until_us_ && !queue_.empty()) {
    const std::string hash = queue_.front();
    queue_.pop_front();
    Answer(hash, StaleOf(hash));
  }
  if (queue_.empty()) return;
  asking_ = true;
  const std::string hash = queue_.front();
  queue_.pop_front();
  const auto answer = std::make_shared<Result<Reply>>(Fail(Code::kUnavailable, "not asked"));
  loop_.RunBlocking([ask = ask_, key = waiting_.at(hash).key, answer] { *answer = ask(key); },
                    guard_([this, hash, answer] {
                      asking_ = false;
                      Take(hash, *answer);
                      AskNext();
                    }));
}

void HttpProvider::Take(const std::string& hash, const Result<Reply>& answer) {
  const int64_t now = clock_.BootMicros();
  Authenticated verdict = tl::unexpected(Denial::kUnavailable);
  const bool away = !answer || answer->status >= kServerError;
  away_until_us_ = away ? now + kAwayUs : 0;
  if (answer && answer->status == 200 && Learn(hash, waiting_.at(hash).key, answer->body)) {
    verdict = IdentityOf(known_.at(hash));
  } else if (answer && SaysUnknown(answer->status)) {
    if (answer->status != kUnauthorized) Complain(answer);
    Forget(hash);
    former_.erase(hash);
    // Emptied as a whole: an attacker can fill it, and then only costs the provider questions.
    if (refused_until_us_.size() >= kMostRefused) refused_until_us_.clear();
    refused_until_us_[hash] = now + kRefusedUs;
    verdict = tl::unexpected(Denial::kUnknown);
  } else {
    // Other answers may be due to this one key, so they stop nobody else.
    if (away) down_until_us_ = now + kDownUs;
    Complain(answer);
    verdict = StaleOf(hash);
  }
  Answer(hash, verdict);
}

void HttpProvider::Complain(const Result<Reply>& answer) {
  const int64_t now = clock_.BootMicros();
  if (now < silent_until_us_) return;
  silent_until_us_ = now + kDownUs;
  LogLine line(LogLevel::kWarning, "the provider of tenants cannot say whose a key is");
  line.Add("endpoint", settings_.endpoint);
  answer ? line.Add("status", answer->status) : line.Add(answer.error());
}

void HttpProvider::Answer(const std::string& hash, const Authenticated& verdict) {
  const auto found = waiting_.find(hash);
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  for (const auto& done : waiting.done) done(verdict);
}

bool HttpProvider::Learn(const std::string& hash, const std::string& key, const std::string& body) {
  if (body.size() > kMaxAnswer) return false;
  const nlohmann::json answer = JsonOrNull(body);
  if (!answer.is_object()) return false;
  const auto name = answer.find("namespace");
  if (name == answer.end() || !name->is_string()) return false;
  const std::string name_space = name->get<std::string>();
  if (!IsTenantName(name_space)) return false;
  int64_t ttl = kDefaultTtl;
  if (const auto given = answer.find("ttl"); given != answer.end()) {
    if (!given->is_number()) return false;
    ttl = static_cast<int64_t>(std::clamp(given->get<double>(), 0.0, double{kMostTtl}));
  }
  const auto before = known_.find(hash);
  if (before != known_.end() && before->second.name_space != name_space) Forget(hash);
  if (!tenants_.Find(name_space) && !tenants_.Add({.name = name_space, .name_space = name_space})) {
    return false;
  }
  if (!known_.contains(hash) && known_.size() >= kMostKnown) {
    Forget(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
             return a.second.used_us < b.second.used_us;
           })->first);
  }
  const int64_t now = clock_.BootMicros();
  Known& known = known_[hash];
  known.key = key;
  known.id = "h_" + hash.substr(0, kHttpIdDigits);
  known.name_space = name_space;
  known.fresh_until_us = now + ttl * kSecondUs;
  known.stale_until_us = now + std::max(ttl, settings_.max_stale_seconds) * kSecondUs;
  if (known.used_us == 0) known.used_us = now;
  ids_[known.id] = hash;
  former_.erase(hash);
  return true;
}

void HttpProvider::Forget(const std::string& hash) {
  const auto found = known_.find(hash);
  if (found == known_.end()) return;
  const std::string id = found->second.id;
  ids_.erase(id);
  known_.erase(found);
  if (on_end_) on_end_(id);
}

void HttpProvider::Refresh() {
  const int64_t now = clock_.BootMicros();
  std::vector<std::string> over;
  for (const auto& [hash, known] : known_) {
    if (now >= known.stale_until_us) {
      over.push_back(hash);
    } else if (now >= known.fresh_until_us && now >= down_until_us_ && !waiting_.contains(hash)) {
      Enqueue(hash, known.key, nullptr);
    }
  }
  for (const std::string& hash : over) {
    if (former_.size() >= kMostKnown) former_.clear();
    former_.insert(hash);
    Forget(hash);
  }
  std::erase_if(refused_until_us_, [now](const auto& one) { return one.second <= now; });
  timer_ = loop_.After(kRefreshUs, [this] { Refresh(); });
}

HttpProvider::Ask HttpAsk(const HttpProvider::Settings& settings) {
  return [settings](const std::string& key) -> Result<HttpProvider::Reply> {
    ATOLL_ASSIGN(const http::BaseUrl parsed, http::ParseBaseUrl(settings.endpoint));
    ATOLL_ASSIGN(const auto client, http::Client::Create(settings.endpoint));
    http::Client::Call call;
    call.target = parsed.prefix.empty() ? "/" : "";
    call.headers.Set("OPEN-SANDBOX-API-KEY", key);
    if (!settings.auth_header.empty()) {
      call.headers.Set(settings.auth_header, settings.auth_token);
    }
    call.limit_us = settings.timeout_seconds * kSecondUs;
    ATOLL_ASSIGN(http::Response response, client->Send(call));
    return HttpProvider::Reply{response.status, std::move(response.body)};
  };
}

}  // namespace atl::tenants
