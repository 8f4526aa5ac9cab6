// Named volumes, the ones that pvc.claimName names. An extension of the OpenSandbox API.
//
//   POST   /v1/volumes          {"name": NAME, "storage": SIZE?} → 201 the volume
//   GET    /v1/volumes          {"items": […]}
//   GET    /v1/volumes/{name}   the volume and its disk use, measured now
//   DELETE /v1/volumes/{name}   204; 409 while a sandbox uses it
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/requests/create_request.h"
#include "runtime/api/requests/volume_request.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"
#include "runtime/base/sandbox_id.h"

namespace atl::api {
namespace {

constexpr size_t kMaxVolumeBody = 64 << 10;

nlohmann::json VolumeJson(const sandbox::Volumes::View& volume) {
  nlohmann::json out = {{"name", volume.name},
                        {"createdAt", FormatTime(volume.created_at_ms)},
                        {"usedBy", volume.used_by},
                        {"deleteOnSandboxTermination", volume.deleted_with_sandbox}};
  if (!volume.tenant.empty()) out["tenant"] = volume.tenant;
  return out;
}

ApiError NoSuchVolume(const std::string& name) {
  return {404, "VOLUME::NOT_FOUND", "volume '" + name.substr(0, 253) + "' does not exist"};
}

}  // namespace

void Api::AddVolumeRoutes() {
  sandbox::Volumes& volumes = parts_.volumes;
  router_.Add("POST", "/volumes", [this](const Call& call) { CreateVolume(call); });
  router_.Add("GET", "/volumes", [&volumes](const Call& call) {
    nlohmann::json items = nlohmann::json::array();
    for (const auto& volume : volumes.List(call.caller())) items.push_back(VolumeJson(volume));
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  router_.Add("GET", "/volumes/{name}", [this](const Call& call) { GetVolume(call); });
  router_.Add("DELETE", "/volumes/{name}", [this, &volumes](const Call& call) {
    const tenants::Caller caller = NamesOf(call);
    const std::string& name = call.args[0];
    if (!volumes.Find(caller, name)) return call.Respond(NoSuchVolume(name));
    if (auto removed = volumes.Remove(caller, name); !removed) {
      return call.Respond(MapError(removed.error(), Doing::kVolume));
    }
    call.Respond(EmptyResponse(204));
  });
}

void Api::CreateVolume(const Call& call) {
  call.exchange().ReadBody(kMaxVolumeBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto wanted = ParseNewVolume(*body);
    if (!wanted) return call.Respond(wanted.error());
    parts_.volumes.Create(call.caller(), wanted->name, wanted->disk_bytes,
                          [call](const Result<sandbox::Volumes::View>& volume) {
                            if (!volume)
                              return call.Respond(MapError(volume.error(), Doing::kVolume));
                            call.Respond(JsonResponse(201, VolumeJson(*volume)));
                          });
  });
}

void Api::GetVolume(const Call& call) {
  sandbox::Volumes& volumes = parts_.volumes;
  const tenants::Caller caller = NamesOf(call);
  const std::string& name = call.args[0];
  if (!volumes.Find(caller, name)) return call.Respond(NoSuchVolume(name));
  volumes.Use(caller, name, [call, caller, &volumes](const Result<wire::DiskUse>& use) {
    if (!use) return call.Respond(MapError(use.error(), Doing::kVolume));
    // The volume may have been removed while it was measured.
    const auto volume = volumes.Find(caller, call.args[0]);
    if (!volume) return call.Respond(NoSuchVolume(call.args[0]));
    nlohmann::json body = VolumeJson(*volume);
    body["size"] = DiskUseJson(*use);
    call.Respond(JsonResponse(200, body));
  });
}

}  // namespace atl::api
