#include "runtime/api/gate/names_only.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/json_text.h"

namespace atl::api {
namespace {

constexpr std::string_view kHiddenMembers[] = {"cmd",        "command", "entrypoint", "env",
                                               "extensions", "probe",   "warmup"};
constexpr std::string_view kLabelMaps[] = {"labels", "metadata"};
constexpr char kHiddenValue[] = "***";

template <typename List>
bool Holds(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

void HideContents(nlohmann::json* value) {
  if (value->is_array()) {
    for (auto& item : *value) HideContents(&item);
  }
  if (!value->is_object()) return;
  for (auto member = value->begin(); member != value->end();) {
    if (Holds(kHiddenMembers, member.key())) {
      member = value->erase(member);
      continue;
    }
    if (Holds(kLabelMaps, member.key()) && member->is_object()) {
      for (const auto& [label, text] : member->items()) {
        if (label != "name") text = kHiddenValue;
      }
    } else {
      HideContents(&*member);
    }
    ++member;
  }
}

}  // namespace

std::string NamesOnly(const std::string& body) {
  nlohmann::json shown = JsonOrNull(body);
  if (shown.is_null()) return body;
  HideContents(&shown);
  return JsonText(shown);
}

}  // namespace atl::api
