#include "runtime/api/requests/metadata_patch.h"

#include <nlohmann/json.hpp>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/requests/labels.h"
#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

bool IsJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type.empty() || http::EqualNoCase(type, "application/json") ||
         http::EqualNoCase(type, "application/merge-patch+json");
}

}  // namespace

Parsed<sandbox::Changes::MetadataPatch> ParseMetadataPatch(const std::string& text,
                                                           std::string_view content_type) {
  Problems problems;
  nlohmann::json value;
  if (IsJson(content_type)) {
    auto parsed = ParseBody(text);
    if (!parsed) return Refuse(std::move(parsed).error());
    value = std::move(*parsed);
  } else {
    value = text.substr(0, 200);
  }
  const Field body(value, Location{"body"}, &problems);
  sandbox::Changes::MetadataPatch patch;
  if (!body.IsObject()) {
    if (problems.empty()) body.Complain("dict_type", "Input should be a valid dictionary");
    return Refuse(problems.ToResponse());
  }
  for (const auto& [name, member] : value.items()) {
    if (member.is_null()) {
      patch[name] = std::nullopt;
    } else if (std::string label; body.At(name).String(&label)) {
      patch[name] = std::move(label);
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  for (const auto& [name, label] : patch) {
    if (!label) continue;
    if (IsReservedLabel(name)) {
      return Refuse(400, "INVALID_METADATA_LABEL", CheckLabelKey(name));
    }
    for (std::string wrong : {CheckLabelKey(name), CheckLabelValue(*label)}) {
      if (!wrong.empty()) return Refuse(400, "SANDBOX::INVALID_METADATA_LABEL", std::move(wrong));
    }
  }
  return patch;
}

}  // namespace atl::api
