#include "runtime/api/routes/render.h"

#include <nlohmann/json.hpp>

#include "runtime/api/gate/json.h"

namespace atl::api {
namespace {

using nlohmann::json;

// Leaves out empty optional members, because clients' models fail on null. Sets members one by one:
// a list of pairs costs twice as much, because the library first builds an array and then takes it
// apart.
json Common(const sandbox::Sandbox& s, const std::vector<std::string>& entrypoint) {
  json out;
  out["id"] = s.id;
  json& status = out["status"];
  status["state"] = sandbox::StateName(s.state);
  status["reason"] = s.reason;
  status["message"] = s.message;
  status["lastTransitionAt"] = FormatTime(s.transition_at_ms);
  out["entrypoint"] = entrypoint;
  out["createdAt"] = FormatTime(s.created_at_ms);
  if (s.expires_at_ms) out["expiresAt"] = FormatTime(*s.expires_at_ms);
  if (!s.metadata.empty()) out["metadata"] = s.metadata;
  if (!s.spec.extensions.empty()) out["extensions"] = s.spec.extensions;
  // The tier that it has, also if the request asked by another word, or the operator decided.
  if (!s.spec.isolation.empty() || s.spec.extensions.contains(sandbox::kIsolation)) {
    out["extensions"][sandbox::kIsolation] = TierOf(s.spec);
  }
  if (s.spec.platform)
    out["platform"] = {{"os", s.spec.platform->os}, {"arch", s.spec.platform->arch}};
  return out;
}

}  // namespace

json PageJson(json items, const PageTotals& totals, const Paging& paging) {
  return {{"items", std::move(items)},
          {"pagination",
           {{"page", paging.page},
            {"pageSize", paging.page_size},
            {"totalItems", totals.total_items},
            {"totalPages", totals.total_pages},
            {"hasNextPage", totals.has_next}}}};
}

json SandboxJson(const sandbox::Sandbox& s) {
  json out = Common(s, s.spec.entrypoint);
  if (s.spec.snapshot_id.empty()) {
    out["image"]["uri"] = s.spec.image;
  } else {
    out["snapshotId"] = s.spec.snapshot_id;
  }
  if (s.state == sandbox::State::kPaused && s.reclaimed_bytes != 0) {
    out["reclaimedBytes"] = s.reclaimed_bytes;
  }
  if (!s.tenant.empty()) out["tenant"] = s.tenant;
  if (!s.spec.template_id.empty()) out["templateId"] = s.spec.template_id;
  if (const auto pool = s.spec.extensions.find(sandbox::kPoolRef);
      pool != s.spec.extensions.end()) {
    out["allocation"] = {{"mode", "pool"}, {"poolRef", pool->second}, {"state", "allocated"}};
  }
  return out;
}

json CreatedJson(const sandbox::Sandbox& s, const std::vector<std::string>& entrypoint) {
  return Common(s, entrypoint);
}

json ForkJson(const std::vector<sandbox::Sandbox>& children) {
  json items = json::array();
  for (const sandbox::Sandbox& child : children) items.push_back(SandboxJson(child));
  return {{"items", std::move(items)},
          {"notInherited", {"processes", "memory", "connections", "tokens", "addresses"}}};
}

json RollbackJson(const sandbox::Sandbox& sandbox) {
  json out = SandboxJson(sandbox);
  out["notKept"] = {"processes", "memory", "connections", "addresses", "log"};
  return out;
}

json ListJson(const Page& page, const ListQuery& query) {
  json items = json::array();
  for (const sandbox::Sandbox* s : page.items) items.push_back(SandboxJson(*s));
  return PageJson(std::move(items), page, query);
}

json SnapshotJson(const sandbox::Snapshot& s) {
  json out = {{"id", s.id},
              {"sandboxId", s.sandbox_id},
              {"status",
               {{"state", sandbox::SnapshotStateName(s.state)},
                {"reason", s.reason},
                {"message", s.message},
                {"lastTransitionAt", FormatTime(s.transition_at_ms)}}},
              {"createdAt", FormatTime(s.created_at_ms)}};
  if (!s.name.empty()) out["name"] = s.name;
  if (!s.tenant.empty()) out["tenant"] = s.tenant;
  return out;
}

json SnapshotsJson(const PageOf<sandbox::Snapshot>& page, const Paging& paging) {
  json items = json::array();
  for (const sandbox::Snapshot* s : page.items) items.push_back(SnapshotJson(*s));
  return PageJson(std::move(items), page, paging);
}

json DiskUseJson(const wire::DiskUse& use) {
  return {{"bytes", use.bytes}, {"entries", use.entries}, {"complete", use.complete}};
}

json LayersJson(const std::vector<images::Layer>& layers) {
  json out = json::array();
  for (const images::Layer& layer : layers) {
    out.push_back({{"digest", layer.blob_digest},
                   {"diffId", layer.diff_id},
                   {"sizeBytes", layer.size_bytes}});
  }
  return out;
}

json ImageJson(const images::Image& image) {
  json answer = {{"name", image.name},
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
  if (!image.tenant.empty()) answer["tenant"] = image.tenant;
  const images::ImageConfig& config = image.config;
  if (!config.labels.empty()) answer["labels"] = config.labels;
  if (!config.exposed_ports.empty()) answer["exposedPorts"] = config.exposed_ports;
  if (!config.volumes.empty()) answer["volumes"] = config.volumes;
  if (!config.shell.empty()) answer["shell"] = config.shell;
  if (!config.stop_signal.empty()) answer["stopSignal"] = config.stop_signal;
  return answer;
}

json DenialsJson(const std::vector<netpolicy::Denial>& denials) {
  json items = json::array();
  for (const netpolicy::Denial& denial : denials) {
    json item{{"time", FormatTime(denial.time_ms)},
              {"protocol", denial.protocol},
              {"reason", denial.reason},
              {"count", denial.count}};
    if (!denial.hostname.empty()) item["hostname"] = denial.hostname;
    if (!denial.address.empty()) item["address"] = denial.address;
    if (denial.port != 0) item["port"] = denial.port;
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace atl::api
