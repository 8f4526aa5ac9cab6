#include "runtime/api/requests/labels.h"

#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {
namespace {

constexpr std::string_view kReserved = "opensandbox.io";

bool LowerAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool Alnum(char c) {
  return LowerAlnum(c) || (c >= 'A' && c <= 'Z');
}

// Returns true for 1 to 63 characters of [A-Za-z0-9._-], alphanumeric at both ends.
bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 63 || !Alnum(text.front()) || !Alnum(text.back())) return false;
  for (char c : text) {
    if (!Alnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view label = text.substr(begin, end - begin);
    if (label.empty() || label.size() > 63 || !LowerAlnum(label.front()) ||
        !LowerAlnum(label.back())) {
      return false;
    }
    for (char c : label) {
      if (!LowerAlnum(c) && c != '-') return false;
    }
    begin = end + 1;
  }
  return true;
}

std::string Shown(std::string_view text) {
  return "'" + std::string(text.substr(0, 80)) + (text.size() > 80 ? "…'" : "'");
}

}  // namespace

bool IsReservedLabel(std::string_view key) {
  return key.substr(0, key.find('/')) == kReserved && key.find('/') != std::string_view::npos;
}

std::string CheckLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (slash != std::string_view::npos) {
    const std::string_view prefix = key.substr(0, slash);
    if (prefix == kReserved) {
      return "metadata key " + Shown(key) + ": the prefix opensandbox.io/ is reserved";
    }
    if (!IsDnsSubdomain(prefix)) {
      return "metadata key " + Shown(key) +
             ": what stands before '/' must be a lower-case DNS name of at most 253 characters";
    }
  }
  if (!IsName(name)) {
    return "metadata key " + Shown(key) +
           ": a name has 1 to 63 letters, digits, '-', '_' or '.', and begins and ends with a "
           "letter or digit";
  }
  return "";
}

std::string CheckLabelValue(std::string_view value) {
  if (value.empty() || IsName(value)) return "";
  return "metadata value " + Shown(value) +
         ": a value is empty or has at most 63 letters, digits, '-', '_' or '.', and begins and "
         "ends with a letter or digit";
}

std::string CheckLabels(const std::map<std::string, std::string>& labels) {
  if (labels.size() > sandbox::kMaxMetadata) {
    return "metadata has " + std::to_string(labels.size()) + " entries: use at most " +
           std::to_string(sandbox::kMaxMetadata);
  }
  for (const auto& [key, value] : labels) {
    if (std::string wrong = CheckLabelKey(key); !wrong.empty()) return wrong;
    if (std::string wrong = CheckLabelValue(value); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace atl::api
