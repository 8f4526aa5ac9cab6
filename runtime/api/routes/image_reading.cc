// Operations that read the whole stored image: verification and export.
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/routes/api.h"

namespace atl::api {

void Api::VerifyImage(const Call& call) {
  const std::string name = call.Parameter("name");
  parts_.images.Verify(
      NamesOf(call), name,
      [call, name](const Result<std::vector<images::ImageStore::VerifiedLayer>>& layers) {
        if (!layers) return call.Respond(MapError(layers.error(), Doing::kReadImage));
        nlohmann::json told = nlohmann::json::array();
        bool intact = true;
        for (const auto& [layer, same] : *layers) {
          told.push_back({{"digest", layer.blob_digest},
                          {"state", !same                   ? "broken"
                                    : layer.content.empty() ? "unrecorded"
                                                            : "intact"}});
          if (same) continue;
          intact = false;
          told.back()["message"] = call.answering().Tellable(same.error().message());
        }
        call.Respond(
            JsonResponse(200, {{"name", name}, {"intact", intact}, {"layers", std::move(told)}}));
      });
}

void Api::ExportImage(const Call& call, const std::string& form) {
  const auto image = parts_.images.Find(NamesOf(call), call.args[0]);
  if (!image) return call.Respond(MapError(image.error(), Doing::kReadImage));
  SendArchive(call, *image, form, Doing::kReadImage);
}

}  // namespace atl::api
