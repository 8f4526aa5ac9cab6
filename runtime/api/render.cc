#include "runtime/api/render.h"

#include <nlohmann/json.hpp>

#include "runtime/api/json.h"

namespace atl::api {
namespace {

using nlohmann::json;

// Optional members are left out when there is nothing to say: clients' models break on null.
json Common(const sandbox::Sandbox& s, const std::vector<std::string>& entrypoint) {
  json out = {{"id", s.id},
              {"status",
               {{"state", sandbox::StateName(s.state)},
                {"reason", s.reason},
                {"message", s.message},
                {"lastTransitionAt", FormatTime(s.transition_at_ms)}}},
              {"entrypoint", entrypoint},
              {"createdAt", FormatTime(s.created_at_ms)}};
  if (s.expires_at_ms) out["expiresAt"] = FormatTime(*s.expires_at_ms);
  if (!s.metadata.empty()) out["metadata"] = s.metadata;
  if (!s.extensions.empty()) out["extensions"] = s.extensions;
  if (s.platform) out["platform"] = {{"os", s.platform->os}, {"arch", s.platform->arch}};
  return out;
}

}  // namespace

json SandboxJson(const sandbox::Sandbox& s) {
  json out = Common(s, s.entrypoint);
  out["image"] = {{"uri", s.image}};
  return out;
}

json CreatedJson(const sandbox::Sandbox& s, const std::vector<std::string>& entrypoint) {
  return Common(s, entrypoint);
}

json ListJson(const Page& page, const ListQuery& query) {
  json items = json::array();
  for (const sandbox::Sandbox* s : page.items) items.push_back(SandboxJson(*s));
  return {{"items", std::move(items)},
          {"pagination",
           {{"page", query.page},
            {"pageSize", query.page_size},
            {"totalItems", page.total_items},
            {"totalPages", page.total_pages},
            {"hasNextPage", page.has_next}}}};
}

json ImageJson(const images::Image& image) {
  return {{"name", image.name},
          {"digest", image.digest},
          {"architecture", image.config.architecture},
          {"sizeBytes", image.size_bytes},
          {"layers", image.layers.size()},
          {"createdAt", FormatTime(image.created_at_ms)},
          {"entrypoint", image.config.entrypoint},
          {"cmd", image.config.cmd},
          {"env", image.config.env},
          {"workingDir", image.config.working_dir},
          {"user", image.config.user}};
}

}  // namespace atl::api
