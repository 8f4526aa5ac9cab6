// Images, an extension of the OpenSandbox API: clients import images, and the daemon pulls none.
//
//   POST   /v1/images?name=NAME[:TAG]   body: an image archive → 201 the image
//   POST   /v1/images?from=IMAGE&name=NAME[:TAG]   another name for it → 201 the image
//   POST   /v1/images/commit?name=NAME[:TAG]&snapshot=ID|image=IMAGE
//          body: the image's config, {"Env": […], "Entrypoint", "Cmd", "WorkingDir", "User",
//          "Labels", …} → 201 the image of those layers
//   POST   /v1/images/prune[?all=true]  {"images": […], "layers": N, "freedBytes": N}
//   POST   /v1/images/verify?name=IMAGE {"intact": …, "layers": […]}, after reading every layer
//   GET    /v1/images                   {"items": […]}
//   GET    /v1/images/{name}?archive=oci   an image archive; also archive=docker
//   GET    /v1/images/{name}            with "rootfs", its layers, and its users: "sandboxes" and
//                                       "snapshots", their ids
//   DELETE /v1/images/{name}            204
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"

namespace atl::api {
namespace {

constexpr size_t kMaxConfigBody = 2 << 20;

// Renders the answer to an import: the image, and what was left out of it.
nlohmann::json ImportedJson(const images::Image& image) {
  nlohmann::json answer = ImageJson(image);
  if (image.given_names.size() > 1) answer["names"] = image.given_names;
  const images::LeftOut& left_out = image.left_out;
  if (left_out.devices + left_out.attributes + left_out.entries + left_out.owners > 0) {
    answer["leftOut"] = {{"devices", left_out.devices},
                         {"attributes", left_out.attributes},
                         {"entries", left_out.entries},
                         {"owners", left_out.owners}};
  }
  return answer;
}

// Describes the progress of an import to sandboxes that wait for it. `archive` is closed once the
// upload is complete.
sandbox::PendingImports::Progress ProgressOf(const std::shared_ptr<UniqueFd>& archive,
                                             const http::Request& request, std::string name) {
  const std::string total(request.headers.Get("Content-Length"));
  return [archive, total, name = std::move(name)] {
    struct stat info {};
    if (!archive->valid() || ::fstat(archive->get(), &info) != 0) {
      return "image " + name + " has arrived, its layers are being unpacked";
    }
    return "image " + name + " is being imported: " + std::to_string(info.st_size) +
           (total.empty() ? "" : " of " + total) + " bytes have arrived";
  };
}

}  // namespace

void Api::AddImageRoutes() {
  router_.Add("POST", "/images", [this](const Call& call) {
    const std::string from = call.Parameter("from");
    from.empty() ? ImportImage(call) : TagImage(call, from);
  });
  router_.Add("POST", "/images/commit", [this](const Call& call) { CommitImage(call); });
  router_.Add("POST", "/images/prune", [this](const Call& call) { PruneImages(call); });
  router_.Add("POST", "/images/verify", [this](const Call& call) { VerifyImage(call); });
  router_.Add("GET", "/images", [this](const Call& call) {
    nlohmann::json items = nlohmann::json::array();
    for (const images::Image& image : parts_.images.List(call.caller()))
      items.push_back(ImageJson(image));
    call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
  });
  // Image names contain slashes, plain or encoded.
  router_.Add("GET", "/images/{name:path}", [this](const Call& call) {
    const std::string form = call.Parameter("archive");
    if (!form.empty()) return ExportImage(call, form);
    const auto image = parts_.images.Find(NamesOf(call), call.args[0]);
    if (!image) return call.Respond(MapError(image.error(), Doing::kFindImage));
    nlohmann::json answer = ImageJson(*image);
    answer["rootfs"] = LayersJson(parts_.images.LayersOf(*image));
    answer["sandboxes"] = UsersOf(call.caller(), *image);
    answer["snapshots"] = parts_.snapshots.UsersOf(call.caller(), *image);
    call.Respond(JsonResponse(200, answer));
  });
  router_.Add("DELETE", "/images/{name:path}", [this](const Call& call) {
    const tenants::Caller caller = NamesOf(call);
    const auto image = parts_.images.Find(caller, call.args[0]);
    if (image && image->tenant == caller.tenant) {
      if (const std::string user = StockOf(caller, *image); !user.empty()) {
        return call.Respond(
            MapError(Error(Code::kFailedPrecondition,
                           "image " + image->name + " is that of " + user + "; delete that first"),
                     Doing::kRemoveImage));
      }
    }
    const auto removed = parts_.images.Remove(caller, call.args[0], [this](uint32_t layer) {
      return parts_.sandboxes.layers.InUse(layer);
    });
    if (!removed) return call.Respond(MapError(removed.error(), Doing::kRemoveImage));
    call.Respond(EmptyResponse(204));
  });
}

std::string Api::StockOf(const tenants::Caller& caller, const images::Image& image) const {
  const sandbox::Sandboxes& sandboxes = parts_.sandboxes;
  if (const auto* pool = sandboxes.pools.UserOf(image.tenant, image.name)) {
    return caller.Sees(pool->tenant) ? "pool '" + sandbox::PoolNameOf(*pool) + "'"
                                     : "a pool of a tenant";
  }
  const auto* of = sandboxes.templates.UserOf(image.tenant, image.name);
  if (of == nullptr) return "";
  return caller.Sees(of->tenant) ? "template '" + of->id + "'" : "a template of a tenant";
}

std::vector<std::string> Api::UsersOf(const tenants::Caller& caller,
                                      const images::Image& image) const {
  std::vector<std::string> ids;
  for (const sandbox::Sandbox* sandbox : parts_.sandboxes.registry.All(caller)) {
    const bool lives = !sandbox::IsOver(sandbox->state) && !sandbox::IsLeaving(sandbox->state);
    if (lives && sandbox->image_digest == image.digest) ids.push_back(sandbox->id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Api::TagImage(const Call& call, const std::string& from) {
  if (const Status may = parts_.sandboxes.terms.CheckMakesImages(call.caller()); !may) {
    return call.Respond(MapError(may.error(), Doing::kTagImage));
  }
  const auto image = parts_.images.Tag(call.caller(), from, call.Parameter("name"));
  if (!image) return call.Respond(MapError(image.error(), Doing::kTagImage));
  call.Respond(JsonResponse(201, ImageJson(*image)));
}

void Api::CommitImage(const Call& call) {
  if (const Status may = parts_.sandboxes.terms.CheckMakesImages(call.caller()); !may) {
    return call.Respond(MapError(may.error(), Doing::kTagImage));
  }
  call.exchange().ReadBody(kMaxConfigBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    const std::string snapshot = call.Parameter("snapshot"), image = call.Parameter("image");
    if (snapshot.empty() == image.empty()) {
      return call.Respond(MapError(Error(Code::kInvalidArgument, "send either snapshot or image"),
                                   Doing::kTagImage));
    }
    std::vector<uint32_t> layers;
    if (!snapshot.empty()) {
      const auto found = parts_.snapshots.Usable(call.caller(), snapshot);
      if (!found) return call.Respond(MapError(found.error(), Doing::kExportSnapshot));
      layers = found->layers;
    } else {
      const auto found = parts_.images.Find(call.caller(), image);
      if (!found) return call.Respond(MapError(found.error(), Doing::kTagImage));
      layers = found->layers;
    }
    const auto made =
        parts_.images.Commit(call.caller(), call.Parameter("name"), std::move(layers), *body);
    if (!made) return call.Respond(MapError(made.error(), Doing::kTagImage));
    call.Respond(JsonResponse(201, ImageJson(*made)));
  });
}

void Api::PruneImages(const Call& call) {
  const std::string all = call.Parameter("all");
  if (!all.empty() && all != "true" && all != "false") {
    return call.Respond(
        MapError(Error(Code::kInvalidArgument, "all must be true or false, not '" + all + "'"),
                 Doing::kRemoveImage));
  }
  parts_.images.Prune(
      [this, everything = all == "true", caller = call.caller()](const images::Image& image) {
        const tenants::Caller& daemon = tenants::Caller::Daemon();
        return everything && caller.Sees(image.tenant) && UsersOf(daemon, image).empty() &&
               parts_.snapshots.UsersOf(daemon, image).empty() && StockOf(daemon, image).empty();
      },
      [this](uint32_t layer) { return parts_.sandboxes.layers.InUse(layer); },
      [call](const Result<images::ImageStore::Pruned>& pruned) {
        if (!pruned) return call.Respond(MapError(pruned.error(), Doing::kRemoveImage));
        call.Respond(JsonResponse(200, {{"images", pruned->images},
                                        {"layers", pruned->layers},
                                        {"freedBytes", pruned->bytes}}));
      });
}

void Api::ImportImage(const Call& call) {
  if (const Status may = parts_.sandboxes.terms.CheckMakesImages(call.caller()); !may) {
    return call.Respond(MapError(may.error(), Doing::kImportImage));
  }
  const std::string name = call.Parameter("name");
  // Checks the name before the client sends gigabytes.
  std::string normal;
  if (!name.empty()) {
    auto normalised = images::NormaliseImageName(name);
    if (!normalised) return call.Respond(MapError(normalised.error(), Doing::kFindImage));
    normal = std::move(*normalised);
  }
  const std::shared_ptr<UniqueFd> archive = NewArchive(call, Doing::kImportImage);
  if (archive == nullptr) return;
  // Without a given name, the name is known only after the archive has been read.
  const auto pending = normal.empty()
                           ? 0
                           : parts_.imports.Begin(images::ImageKey(call.caller().tenant, normal),
                                                  ProgressOf(archive, call.request(), normal));
  SaveArchive(call, archive, Doing::kImportImage,
              [this, call, archive, pending, name](const Status& saved) {
                if (saved) return ImportSaved(call, std::move(*archive), name, pending);
                parts_.imports.End(pending, saved);
              });
}

void Api::ImportSaved(const Call& call, UniqueFd archive, std::string name,
                      sandbox::PendingImports::Id pending) {
  parts_.images.Import(call.caller(), std::move(archive), std::move(name),
                       [this, call, pending](const Result<images::Image>& image) {
                         call.Respond(image ? JsonResponse(201, ImportedJson(*image))
                                            : call.answering().Failure(
                                                  MapError(image.error(), Doing::kImportImage)));
                         parts_.imports.End(pending, image ? Status() : Fail(image.error()));
                       });
}

}  // namespace atl::api
