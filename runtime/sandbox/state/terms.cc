#include "runtime/sandbox/state/terms.h"

#include <algorithm>
#include <utility>

#include "images/allowed.h"
#include "runtime/base/log.h"
#include "runtime/tenants/quota_text.h"

namespace atl::sandbox {
namespace {

// A rule that no name of an image matches.
constexpr char kNoImage[] = "!";

tl::unexpected<Error> Refuse(const std::string& why) {
  return Fail(Error(Code::kPermissionDenied, why, kByTerms));
}

Result<std::vector<std::string>> NormalRules(const std::vector<std::string>& rules) {
  std::vector<std::string> normal;
  for (const std::string& rule : rules) {
    ATOLL_ASSIGN(std::string one, images::CheckAllowedRule(rule));
    normal.push_back(std::move(one));
  }
  return normal;
}

Status CheckRules(const std::vector<std::string>& rules, const std::string& whose,
                  const std::string& name, std::string_view digest) {
  if (images::CheckAllowed(rules, name, digest)) return {};
  std::string all;
  for (const std::string& rule : rules) all += (all.empty() ? "" : ", ") + rule;
  return Refuse(whose + " may not use image '" + name + "'; it may use " +
                (all == kNoImage ? "none" : all));
}

template <typename T>
void Narrow(T& limit, T by) {
  if (by != 0 && (limit == 0 || by < limit)) limit = by;
}

tenants::Quota Lower(tenants::Quota quota, const tenants::Quota& by) {
  for (const tenants::QuotaField& field : tenants::QuotaFields()) {
    if (field.value != nullptr) Narrow(quota.*field.value, by.*field.value);
    if (field.rate != nullptr) Narrow(quota.*field.rate, by.*field.rate);
  }
  return quota;
}

SharedTerms Nothing(const std::string& tenant) {
  auto terms = std::make_shared<Terms>();
  terms->tenant = tenant;
  terms->images = {kNoImage};
  const auto ceiling = netpolicy::Ceiling::Make({});
  ATOLL_CHECK(ceiling);
  terms->ceiling = *ceiling;
  terms->policy_locked = true;
  return terms;
}

}  // namespace

Status Terms::CheckImage(const std::string& name, std::string_view digest) const {
  ATOLL_TRY(CheckRules(images, "tenant " + tenant, name, digest));
  return CheckRules(key_images, "this key", name, digest);
}

Status Terms::CheckLifetime(std::optional<int64_t> seconds) const {
  const uint64_t most = max.timeout_seconds;
  if (most == 0 || (seconds && *seconds <= static_cast<int64_t>(most))) return {};
  const std::string asked =
      seconds ? "a lifetime of " + std::to_string(*seconds) + " s" : "a lifetime without an end";
  return Refuse(asked + " is longer than tenant " + tenant + " may ask for: at most " +
                std::to_string(most) + " s from now");
}

Status Terms::CheckPolicy(const netpolicy::SharedPolicy& policy) const {
  if (!ceiling || !policy) return {};
  const Status within = ceiling->Check(*policy);
  return within ? within : Refuse(within.error().message());
}

Status Terms::CheckMakesImages() const {
  if (images.empty() && key_images.empty()) return {};
  return Refuse((images.empty() ? "this key" : "tenant " + tenant) +
                " may only use images of the host: an operator gives it others");
}

Result<SharedTerms> MakeTerms(const tenants::Tenant& tenant) {
  auto terms = std::make_shared<Terms>();
  terms->tenant = tenant.name;
  terms->max = tenant.max;
  terms->policy_locked = tenant.policy_locked;
  ATOLL_ASSIGN(terms->images, NormalRules(tenant.images));
  if (!tenant.egress_ceiling.empty()) {
    ATOLL_ASSIGN(terms->ceiling, netpolicy::Ceiling::Make(tenant.egress_ceiling));
  }
  return SharedTerms(std::move(terms));
}

SharedTerms TermsTable::Of(const std::string& owner) const {
  if (owner.empty() || !table_.enabled()) return nullptr;
  const tenants::SharedTenant tenant = table_.Find(owner);
  if (tenant == nullptr) {
    made_.erase(owner);
    return Nothing(owner);
  }
  Made& made = made_[owner];
  if (made.of == tenant) return made.terms;
  auto terms = MakeTerms(*tenant);
  if (!terms) {
    LogLine(LogLevel::kError, "the terms of a tenant cannot be read; it gets nothing new")
        .Add("tenant", owner)
        .Add(terms.error());
  }
  made = {tenant, terms ? *std::move(terms) : Nothing(owner)};
  return made.terms;
}

SharedTerms TermsTable::Of(const std::string& owner, const tenants::Caller& caller) const {
  SharedTerms terms = Of(owner);
  if (terms == nullptr || caller.narrowing == nullptr) return terms;
  const tenants::Narrowing& narrowing = *caller.narrowing;
  auto narrowed = std::make_shared<Terms>(*terms);
  narrowed->max = Lower(narrowed->max, narrowing.max);
  auto rules = NormalRules(narrowing.images);
  narrowed->key_images = rules ? *std::move(rules) : std::vector<std::string>{kNoImage};
  return narrowed;
}

Status TermsTable::CheckMakesImages(const tenants::Caller& caller) const {
  const SharedTerms terms = Of(caller.tenant, caller);
  return terms ? terms->CheckMakesImages() : Status();
}

}  // namespace atl::sandbox
