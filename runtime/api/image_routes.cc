// An extension of ours: images are imported here, not pulled.
//
//   POST   /v1/images?name=NAME[:TAG]   body: an OCI image archive → 201 the image
//   GET    /v1/images                   {"items": […]}
//   GET    /v1/images/{name}
//   DELETE /v1/images/{name}            204
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/api.h"
#include "runtime/api/error_map.h"
#include "runtime/api/json.h"
#include "runtime/api/render.h"
#include "runtime/base/disk_full.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

// For sandboxes that wait for it. `archive` is closed once all of it is there.
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

std::string Mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

// That `archive`, of `size` bytes as far as that is known, has no room where it is saved.
Error NoRoom(uint64_t size, uint64_t free) {
  return Error(Code::kResourceExhausted,
               "no room for the archive on the file system of <data_dir>/state: " +
                   (size == 0 ? std::string() : "it has " + Mebibytes(size) + ", ") +
                   Mebibytes(free) +
                   " are free; make room, it takes twice its size while it is unpacked",
               ENOSPC);
}

uint64_t FreeBytes(int archive) {
  struct statvfs info {};
  return ::fstatvfs(archive, &info) == 0 ? uint64_t{info.f_bavail} * info.f_frsize : 0;
}

// What the client says that it is about to send; 0: nothing.
uint64_t AnnouncedSize(const http::Request& request) {
  const std::string_view text = request.headers.Get("Content-Length");
  uint64_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

}  // namespace

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
  std::string normal;
  if (!name.empty()) {
    auto normalised = images::NormaliseImageName(name);
    if (!normalised) return call.Respond(MapError(normalised.error(), Doing::kFindImage));
    normal = std::move(*normalised);
  }
  auto file = images_.TemporaryFile();
  if (!file) return call.Respond(MapError(file.error(), Doing::kImportImage));
  const uint64_t announced = AnnouncedSize(call.request());
  const uint64_t free = FreeBytes(file->get());
  if (announced <= config_.max_image_bytes && announced >= free) {
    return call.Respond(MapError(NoRoom(announced, free), Doing::kImportImage));
  }
  // std::function wants copyable captures.
  const auto archive = std::make_shared<UniqueFd>(std::move(*file));
  // An archive without a name given says its own only when it has been read.
  const auto pending =
      normal.empty() ? 0
                     : lifecycle_.ImportBegins(normal, ProgressOf(archive, call.request(), normal));
  call.exchange().SaveBody(archive->get(), config_.max_image_bytes,
                           [this, call, archive, announced, pending,
                            name = std::move(name)](const Result<uint64_t>& saved) {
                             if (saved)
                               return ImportSaved(call, std::move(*archive), name, pending);
                             // Somebody else has taken what was free.
                             const Error error = IsDiskFull(saved.error())
                                                     ? NoRoom(announced, FreeBytes(archive->get()))
                                                     : saved.error();
                             call.Respond(MapError(error, Doing::kImportImage));
                             lifecycle_.ImportEnds(pending, Fail(saved.error()));
                           });
}

void Api::ImportSaved(const Call& call, UniqueFd archive, std::string name,
                      sandbox::PendingImports::Id pending) {
  images_.Import(std::move(archive), std::move(name),
                 [this, call, pending](const Result<images::Image>& image) {
                   call.Respond(image ? JsonResponse(201, ImageJson(*image))
                                      : call.answering().Failure(
                                            MapError(image.error(), Doing::kImportImage)));
                   lifecycle_.ImportEnds(pending, image ? Status() : Fail(image.error()));
                 });
}

}  // namespace atl::api
