// An extension of ours: the named volumes that pvc.claimName means.
//
//   POST   /v1/volumes          {"name": NAME, "storage": SIZE?} → 201 the volume
//   GET    /v1/volumes          {"items": […]}
//   GET    /v1/volumes/{name}   the volume, with what it takes on disk, counted now
//   DELETE /v1/volumes/{name}   204; 409 while a sandbox uses it
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/api.h"
#include "runtime/api/create_request.h"
#include "runtime/api/error_map.h"
#include "runtime/api/json.h"
#include "runtime/api/volume_request.h"
#include "runtime/base/sandbox_id.h"

namespace atl::api {
namespace {

constexpr size_t kMaxBody = 64 << 10;

nlohmann::json VolumeJson(const sandbox::Volumes::View& volume) {
  return {{"name", volume.name},
          {"createdAt", FormatTime(volume.created_at_ms)},
          {"usedBy", volume.used_by},
          {"deleteOnSandboxTermination", volume.deleted_with_sandbox}};
}

ApiError NoSuchVolume(const std::string& name) {
  return {404, "VOLUME::NOT_FOUND", "volume '" + name.substr(0, 253) + "' does not exist"};
}

// Why a create cannot have its volumes.
ApiError AcquireError(const Error& error, wire::Volume::Kind kind) {
  switch (error.code()) {
    case Code::kPermissionDenied:
      return {400, "VOLUME::HOST_PATH_NOT_ALLOWED", error.message()};
    case Code::kNotFound:
      return {400, "VOLUME::PVC_NOT_FOUND", error.message()};
    case Code::kInvalidArgument:
      return {400, "VOLUME::INVALID_SUB_PATH", error.message()};
    case Code::kInternal:
      return {500,
              kind == wire::Volume::Kind::kHost ? "VOLUME::HOST_PATH_CREATE_FAILED"
                                                : "VOLUME::PVC_INSPECT_FAILED",
              error.message()};
    default:
      return MapError(error, Doing::kVolume);
  }
}

}  // namespace

void Api::AddVolumeRoutes() {
  if (lifecycle_.volumes() == nullptr) return;
  sandbox::Volumes& volumes = *lifecycle_.volumes();
  router_.Add("POST", "/volumes", [this](const Call& call) { CreateVolume(call); });
  router_.Add("GET", "/volumes", [&volumes](const Call& call) {
    nlohmann::json items = nlohmann::json::array();
    for (const auto& volume : volumes.List()) items.push_back(VolumeJson(volume));
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  router_.Add("GET", "/volumes/{}", [this](const Call& call) { GetVolume(call); });
  router_.Add("DELETE", "/volumes/{}", [&volumes](const Call& call) {
    const std::string& name = call.args[0];
    if (!volumes.Find(name)) return call.Respond(NoSuchVolume(name));
    if (auto removed = volumes.Remove(name); !removed) {
      return call.Respond(MapError(removed.error(), Doing::kVolume));
    }
    call.Respond(EmptyResponse(204));
  });
}

void Api::CreateVolume(const Call& call) {
  call.exchange().ReadBody(kMaxBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const auto wanted = ParseNewVolume(*body);
    if (!wanted) return call.Respond(wanted.error());
    lifecycle_.volumes()->Create(wanted->name, wanted->disk_bytes,
                                 [call](const Result<sandbox::Volumes::View>& volume) {
                                   if (!volume)
                                     return call.Respond(MapError(volume.error(), Doing::kVolume));
                                   call.Respond(JsonResponse(201, VolumeJson(*volume)));
                                 });
  });
}

void Api::GetVolume(const Call& call) {
  sandbox::Volumes& volumes = *lifecycle_.volumes();
  const std::string& name = call.args[0];
  if (!volumes.Find(name)) return call.Respond(NoSuchVolume(name));
  volumes.Use(name, [call, &volumes](const Result<wire::VolumeUse>& use) {
    if (!use) return call.Respond(MapError(use.error(), Doing::kVolume));
    // It may have gone while it was counted.
    const auto volume = volumes.Find(call.args[0]);
    if (!volume) return call.Respond(NoSuchVolume(call.args[0]));
    nlohmann::json body = VolumeJson(*volume);
    body["size"] = {{"bytes", use->bytes}, {"entries", use->entries}, {"complete", use->complete}};
    call.Respond(JsonResponse(200, body));
  });
}

void Api::CreateWithVolumes(const Call& call, CreateRequest request) {
  sandbox::Volumes* const volumes = lifecycle_.volumes();
  if (volumes == nullptr) {
    return call.Respond({501, "VOLUME::UNSUPPORTED_BACKEND", "volumes are not offered here"});
  }
  // All that can be told before anything is made: a create that is refused leaves no volume.
  sandbox::Lifecycle::Created answer = SandboxAnswer(call, request);
  if (lifecycle_.AnswerEarly(request.spec, answer)) return;
  request.spec.id = NewSandboxId();
  const std::string id = request.spec.id;
  std::vector<sandbox::VolumeMount> mounts = request.spec.volumes;
  volumes->Acquire(
      id, std::move(mounts),
      [this, call, request = std::move(request)](Status acquired, wire::Volume::Kind failed) {
        if (!acquired) return call.Respond(AcquireError(acquired.error(), failed));
        StartSandbox(call, request);
      });
}

}  // namespace atl::api
