#include "runtime/sandbox/state/quotas.h"

#include <array>
#include <string_view>
#include <utility>

#include "cgroup/limits_text.h"

namespace atl::sandbox {
namespace {

constexpr std::string_view kUnlimited = "unlimited";

// The words around the values in the message of a refusal, which QuotaRefusalOf reads again.
constexpr std::string_view kQuotaOf = " quota of tenant ";
constexpr std::string_view kIs = " is ";
constexpr std::string_view kUsed = "; used are ";
constexpr std::string_view kAsked = ", asked for were ";
constexpr std::string_view kAdvice = ". ";
constexpr std::string_view kDelete = "Delete some, or have the quota raised";
constexpr std::string_view kLimit =
    "With this quota every sandbox and volume needs a limit of its own: send one in the request";

using TextOf = std::string (*)(uint64_t);

std::string CountText(uint64_t count) {
  return std::to_string(count);
}
std::string CpuText(uint64_t millis) {
  return millis % 1000 == 0 ? std::to_string(millis / 1000) : std::to_string(millis) + "m";
}

struct Row {
  const char* name;
  uint64_t tenants::Quota::*limit;
  uint64_t Owned::*amount;
  TextOf text;
  bool of_sandbox;  // every sandbox takes some
};
constexpr auto kRows = std::to_array<Row>({
    {"sandboxes", &tenants::Quota::sandboxes, &Owned::sandboxes, CountText, true},
    {"cpu", &tenants::Quota::cpu_millis, &Owned::cpu_millis, CpuText, true},
    {"memory", &tenants::Quota::memory_bytes, &Owned::memory_bytes, cgroup::BytesText, true},
    {"disk", &tenants::Quota::disk_bytes, &Owned::disk_bytes, cgroup::BytesText, true},
    {"gpus", &tenants::Quota::gpus, &Owned::gpus, CountText, false},
    {"volumes", &tenants::Quota::volumes, &Owned::volumes, CountText, false},
    {"snapshots", &tenants::Quota::snapshots, &Owned::snapshots, CountText, false},
    {"pools", &tenants::Quota::pools, &Owned::pools, CountText, false},
});
static_assert(sizeof(Owned) == kRows.size() * sizeof(uint64_t));

// Checks the rows of which something is asked for. A sandbox asks for each of its rows; 0 means
// that it has no such limit, and it could then use more than any quota.
Status CheckRows(const SharedTerms& terms, const Owned& owned, const Owned& asked) {
  if (terms == nullptr) return {};
  for (const Row& row : kRows) {
    const uint64_t limit = terms->max.*row.limit;
    const uint64_t used = owned.*row.amount;
    const uint64_t more = asked.*row.amount;
    const bool unlimited = more == 0 && row.of_sandbox && asked.sandboxes != 0;
    if (limit == 0 || (more == 0 && !unlimited)) continue;
    // Written so that no sum overflows.
    if (!unlimited && used <= limit && more <= limit - used) continue;
    return Fail(QuotaError(terms->tenant, {row.name, row.text(limit), row.text(used),
                                           unlimited ? std::string(kUnlimited) : row.text(more)}));
  }
  return {};
}

// Takes the text up to `end` from the front of `text`.
std::optional<std::string> Take(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  std::string taken(text.substr(0, at));
  text.remove_prefix(at + end.size());
  return taken;
}

}  // namespace

Error QuotaError(const std::string& tenant, const QuotaRefusal& refusal) {
  std::string text = refusal.quota;
  text.append(kQuotaOf).append(tenant).append(kIs).append(refusal.limit);
  text.append(kUsed).append(refusal.used).append(kAsked).append(refusal.asked).append(kAdvice);
  text.append(refusal.asked == kUnlimited ? kLimit : kDelete);
  return Error(Code::kResourceExhausted, std::move(text), kByTerms);
}

std::optional<QuotaRefusal> QuotaRefusalOf(const Error& error) {
  if (error.code() != Code::kResourceExhausted || error.error_number() != kByTerms) {
    return std::nullopt;
  }
  std::string_view text = error.message();
  auto quota = Take(text, kQuotaOf);
  if (!quota || !Take(text, kIs)) return std::nullopt;
  auto limit = Take(text, kUsed);
  auto used = Take(text, kAsked);
  auto asked = Take(text, kAdvice);
  if (!limit || !used || !asked) return std::nullopt;
  // Callers may have prepended what they were doing.
  if (const size_t context = quota->rfind(' '); context != std::string::npos) {
    quota->erase(0, context + 1);
  }
  return QuotaRefusal{*std::move(quota), *std::move(limit), *std::move(used), *std::move(asked)};
}

Owned& Owned::operator+=(const Owned& other) {
  for (const Row& row : kRows) this->*row.amount += other.*row.amount;
  return *this;
}

Owned& Owned::operator-=(const Owned& other) {
  for (const Row& row : kRows) this->*row.amount -= other.*row.amount;
  return *this;
}

Owned Times(const Owned& each, uint64_t count) {
  Owned all;
  for (const Row& row : kRows) {
    if (__builtin_mul_overflow(each.*row.amount, count, &(all.*row.amount))) {
      all.*row.amount = UINT64_MAX;
    }
  }
  return all;
}

Status CheckSandboxQuota(const SharedTerms& terms, const Owned& owned, const Owned& asked) {
  return CheckRows(terms, owned, asked);
}

Status CheckVolumeQuota(const SharedTerms& terms, const Owned& owned, uint64_t disk_bytes) {
  if (terms == nullptr) return {};
  ATOLL_TRY(CheckRows(terms, owned, {.disk_bytes = disk_bytes, .volumes = 1}));
  if (disk_bytes != 0 || terms->max.disk_bytes == 0) return {};
  // A volume without a limit could fill the store.
  return Fail(
      QuotaError(terms->tenant, {"disk", cgroup::BytesText(terms->max.disk_bytes),
                                 cgroup::BytesText(owned.disk_bytes), std::string(kUnlimited)}));
}

Status CheckSnapshotQuota(const SharedTerms& terms, const Owned& owned) {
  return CheckRows(terms, owned, {.snapshots = 1});
}

Status CheckPoolQuota(const SharedTerms& terms, const Owned& owned) {
  return CheckRows(terms, owned, {.pools = 1});
}

Status CheckPoolSize(const SharedTerms& terms, uint64_t members, const Owned& each) {
  return CheckRows(terms, {}, Times(each, members));
}

}  // namespace atl::sandbox
