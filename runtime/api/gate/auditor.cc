#include "runtime/api/gate/auditor.h"

#include <utility>
#include <variant>

#include "runtime/api/gate/command_facts.h"
#include "runtime/api/gate/credential.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::api {

using audit::Event;
using audit::Level;

Auditor::Auditor(audit::AuditLog& log, const Clock& clock, audit::Levels levels,
                 const std::string& secret)
    : log_(log),
      clock_(clock),
      levels_(std::move(levels)),
      hmac_key_(HmacSha256(secret, "atoll audit")) {}

std::string Auditor::Hmac(std::string_view text) const {
  return HexEncode(HmacSha256(hmac_key_, text));
}

void Auditor::DescribeSandbox(const std::string& id, Event* event) const {
  if (describe_) describe_(id, event);
}

void Auditor::Write(Event event) const {
  if (LevelOf(event.action) == Level::kNone) return;
  // Clients choose these texts, and may put their key in any of them.
  for (std::string* const text : {&event.from.agent, &event.target.id, &event.target.name,
                                  &event.target.image, &event.request, &event.actor.subject}) {
    *text = WithoutTokens(*text);
  }
  for (audit::Fact& fact : event.what) {
    if (auto* const text = std::get_if<std::string>(&fact.value)) *text = WithoutTokens(*text);
  }
  log_.Write(event);
}

void Auditor::WriteOwn(std::string_view action, const std::string& id,
                       std::vector<audit::Fact> what) {
  Event event{.action = action, .outcome = "success", .what = std::move(what)};
  if (!id.empty()) {
    event.target = {.kind = "sandbox", .id = id};
    DescribeSandbox(id, &event);
  }
  Write(std::move(event));
}

void Auditor::Refused(std::string_view action, const http::Request& request,
                      std::string_view request_id, std::string_view reason,
                      const tenants::Identity* holder, std::string_view sandbox) {
  const int64_t second = clock_.BootMicros() / 1'000'000;
  if (std::exchange(second_, second) != second) refusals_ = 0;
  if (++refusals_ > kRefusalsPerSecond) {
    ++left_out_;
    return;
  }
  Event event{.action = action,
              .outcome = "denied",
              .actor = {.kind = "nobody"},
              .from = SourceOf(request),
              .trace = TraceOf(request),
              .what = {{"reason", std::string(reason)}}};
  // The owner of the sandbox reads this line, and a stranger has chosen the id of its request.
  if (holder != nullptr || sandbox.empty()) event.request = request_id;
  if (holder != nullptr) {
    event.actor =
        ActorOf({.key_id = holder->key_id, .role = holder->role, .subject = holder->subject});
    event.tenant = holder->tenant;
  }
  if (!sandbox.empty()) {
    event.target = {.kind = "sandbox", .id = std::string(sandbox)};
    DescribeSandbox(event.target.id, &event);
  }
  if (left_out_ != 0) event.what.push_back({"left_out", static_cast<int64_t>(left_out_)});
  left_out_ = 0;
  Write(std::move(event));
}

Auditor::Seen* Auditor::Renew(Table* table, const std::string& key, int64_t age_us) const {
  const int64_t now_us = clock_.BootMicros();
  const auto found = table->find(key);
  if (found != table->end() && now_us - found->second.at_us < age_us) {
    ++found->second.count;
    return nullptr;
  }
  if (found == table->end() && table->size() >= kRemembered) {
    std::erase_if(*table, [&](const auto& entry) { return now_us - entry.second.at_us >= age_us; });
    // More lines than necessary are better than none.
    if (table->size() >= kRemembered) table->clear();
  }
  Seen& seen = (*table)[key];
  seen.at_us = now_us;
  return &seen;
}

bool Auditor::IsFirstUse(std::string_view key_id, std::string_view sandbox, std::string_view port) {
  std::string key(key_id);
  key.append("\n").append(sandbox).append("\n").append(port);
  return Renew(&ports_, key, kPortUs) != nullptr;
}

void Auditor::Denied(const std::string& sandbox, const std::string& destination,
                     std::string_view reason, uint64_t count) {
  Seen* const seen = Renew(&denials_, sandbox + "\n" + destination, kDenialUs);
  if (seen == nullptr) return;
  Event event{.action = "egress.denied",
              .outcome = "denied",
              .actor = {.kind = "sandbox", .id = sandbox},
              .target = {.kind = "sandbox", .id = sandbox},
              .what = {{"destination", destination},
                       {"reason", std::string(reason)},
                       {"count", static_cast<int64_t>(count + seen->count)}}};
  seen->count = 0;
  DescribeSandbox(sandbox, &event);
  Write(std::move(event));
}

audit::Source SourceOf(const http::Request& request) {
  return {.ip = request.peer.substr(0, request.peer.rfind(':')),
          .agent = WithoutSecrets(request.headers.Get("User-Agent")),
          .via = request.tls ? "tls" : "plain"};
}

audit::Actor ActorOf(const tenants::Caller& caller) {
  // A request with the token of a sandbox has no key.
  if (caller.key_id.empty()) return {.kind = "token"};
  if (!caller.subject.empty()) {
    return {.kind = "oidc",
            .id = caller.key_id,
            .subject = caller.subject,
            .role = tenants::RoleName(caller.role)};
  }
  return {.kind = "key", .id = caller.key_id, .role = tenants::RoleName(caller.role)};
}

std::string TraceOf(const http::Request& request) {
  // 00-<32 hex>-<16 hex>-<2 hex>
  constexpr size_t kStart = 3, kSize = 32, kWhole = 55;
  const std::string_view value = request.headers.Get("traceparent");
  if (value.size() != kWhole || !value.starts_with("00-")) return {};
  const std::string_view id = value.substr(kStart, kSize);
  if (id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  return std::string(id);
}

}  // namespace atl::api
