// Quotas as text, for the tenants' file, the API and the command line. One table names the fields.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/tenants/tenant.h"

namespace atl::tenants {

struct QuotaField {
  enum class Kind : uint8_t {
    kCount,  // "50"
    kCpu,    // "16", "0.5", "500m": CPUs
    kBytes,  // "32Gi"
    kRate,   // "20", "0.5": per second
  };
  std::string_view name;
  Kind kind;
  uint64_t Quota::*value = nullptr;  // null for kRate
  double Quota::*rate = nullptr;     // set for kRate
};

// Returns all fields, in the order of the documents.
std::span<const QuotaField> QuotaFields();

// Sets one field. kInvalidArgument: no such field, or a value that it does not take; the message
// says what is expected. "0" means unlimited.
Status SetQuota(std::string_view name, const std::string& text, Quota* quota);
// Returns the fields that limit something, by name. SetQuota reads their values.
std::map<std::string, std::string> QuotaTexts(const Quota& quota);

}  // namespace atl::tenants
