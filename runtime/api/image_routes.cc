// An extension of ours: images are imported here, not pulled.
//
//   POST   /v1/images?name=NAME[:TAG]   body: an OCI image archive → 201 the image
//   GET    /v1/images                   {"items": […]}
//   GET    /v1/images/{name}
//   DELETE /v1/images/{name}            204
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/api.h"
#include "runtime/api/error_map.h"
#include "runtime/api/json.h"
#include "runtime/api/render.h"
#include "runtime/http/query.h"

namespace atl::api {

void Api::AddImageRoutes() {
  router_.Add("POST", "/images", [this](const Call& call) { ImportImage(call); });
  router_.Add("GET", "/images", [this](const Call& call) {
    nlohmann::json items = nlohmann::json::array();
    for (const images::Image& image : images_.List()) items.push_back(ImageJson(image));
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  // Names have slashes, sent as they are or encoded.
  router_.Add("GET", "/images/{+}", [this](const Call& call) {
    const auto image = images_.Find(call.args[0]);
    if (!image) return call.Respond(MapError(image.error(), Doing::kFindImage));
    call.Respond(JsonResponse(200, ImageJson(*image)));
  });
  router_.Add("DELETE", "/images/{+}", [this](const Call& call) {
    const auto removed = images_.Remove(
        call.args[0], [this](uint32_t layer) { return lifecycle_.LayerInUse(layer); });
    if (!removed) return call.Respond(MapError(removed.error(), Doing::kRemoveImage));
    call.Respond(EmptyResponse(204));
  });
}

void Api::ImportImage(const Call& call) {
  std::string name;
  for (const auto& [key, value] : http::ParseQuery(call.request().query())) {
    if (key == "name") name = value;
  }
  // Before gigabytes have been sent.
  if (!name.empty()) {
    if (const auto normal = images::NormaliseImageName(name); !normal) {
      return call.Respond(MapError(normal.error(), Doing::kFindImage));
    }
  }
  auto file = images_.TemporaryFile();
  if (!file) return call.Respond(MapError(file.error(), Doing::kImportImage));
  // std::function wants copyable captures.
  const auto archive = std::make_shared<UniqueFd>(std::move(*file));
  call.exchange().SaveBody(
      archive->get(), config_.max_image_bytes,
      [this, call, archive, name = std::move(name)](const Result<uint64_t>& saved) {
        if (!saved) return call.Respond(MapError(saved.error(), Doing::kImportImage));
        ImportSaved(call, std::move(*archive), name);
      });
}

void Api::ImportSaved(const Call& call, UniqueFd archive, std::string name) {
  images_.Import(std::move(archive), std::move(name), [call](const Result<images::Image>& image) {
    if (!image) return call.Respond(MapError(image.error(), Doing::kImportImage));
    call.Respond(JsonResponse(201, ImageJson(*image)));
  });
}

}  // namespace atl::api
