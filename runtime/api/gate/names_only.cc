#include "runtime/api/gate/names_only.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runtime/api/gate/json.h"
#include "runtime/base/json_text.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

// Members that are shown. Of an object or a list, those inside are looked at in turn.
constexpr std::string_view kShown[] = {
    // Every object.
    "id", "name", "tenant", "items", "next", "status", "state", "phase", "reason",
    "lastTransitionAt", "createdAt", "updatedAt", "expiresAt", "goneAt",
    // Sandboxes.
    "image", "uri", "imageDigest", "snapshotId", "sandboxId", "templateId", "isolation",
    "reclaimedBytes", "readOnlyRootFilesystem", "gpus",
    // Disks.
    "bytes", "entries", "complete", "size",
    // Networks and their policies.
    "mode", "enforcementMode", "network", "hostname", "addresses", "address", "bitsPerSecond",
    "learned", "denials", "expiresInSeconds", "protocol", "port", "time", "count", "policy",
    "defaultAction", "egress", "action", "target", "ports",
    // Images.
    "digest", "diffId", "architecture", "sizeBytes", "layers", "rootfs", "sandboxes", "snapshots",
    // Volumes.
    "usedBy", "deleteOnSandboxTermination",
    // Pools and templates.
    "total", "allocated", "available", "publish", "format", "ready", "building", "waiting", "stock",
    "readiness", "timeoutSeconds", "warmupSeconds"};
// Members that are shown with everything inside: objects of numbers and of words of this daemon.
constexpr std::string_view kShownWhole[] = {"pagination",     "platform", "allocation",
                                            "resourceLimits", "counters", "capacitySpec",
                                            "creates",        "idle",     "usage"};
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
    if (Holds(kLabelMaps, member.key()) && member->is_object()) {
      for (const auto& [label, text] : member->items()) {
        if (label != "name") text = kHiddenValue;
      }
    } else if (Holds(kShown, member.key())) {
      HideContents(&*member);
    } else if (!Holds(kShownWhole, member.key())) {
      member = value->erase(member);
      continue;
    }
    ++member;
  }
}

http::Response Refused(const char* message) {
  return JsonResponse(403, {{"code", "FORBIDDEN"}, {"message", message}, {"needs", "admin"}});
}

}  // namespace

std::optional<http::Response> RefuseLabelFilter(std::string_view query) {
  for (const auto& [name, value] : http::ParseQuery(query)) {
    if (name == "metadata" || name == "label") {
      return Refused("a key with this role does not read labels, so it cannot ask for one");
    }
  }
  return std::nullopt;
}

http::Response NamesOnly(http::Response answer) {
  if (answer.status >= 400 || answer.body.empty()) return answer;
  nlohmann::json shown = JsonOrNull(answer.body);
  if (!shown.is_structured()) {
    return Refused("this answer is a text, and a key with this role reads names and states");
  }
  HideContents(&shown);
  answer.body = JsonText(shown);
  return answer;
}

}  // namespace atl::api
