#include "images/export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/digest.h"
#include "images/image_archive.h"
#include "images/oci_layout.h"
#include "images/report.h"
#include "runtime/base/json_text.h"

namespace atl::images {
namespace {

using Json = nlohmann::json;

}  // namespace

Status CompareContent(const Layer& layer, const std::string& content) {
  if (layer.content.empty() || layer.content == content) return {};
  return Fail(Code::kFailedPrecondition,
              "layer " + layer.blob_digest + " has changed on disk since it was imported (" +
                  layer.content + " then, " + content + " now); import its image again");
}

Export::Export(std::weak_ptr<bool> owner, Loop& loop, UnpackRunner& runner, Image image,
               std::vector<Layer> layers, ArchiveForm form, UniqueFd file, Done done)
    : owner_(std::move(owner)),
      loop_(loop),
      runner_(runner),
      image_(std::move(image)),
      layers_(std::move(layers)),
      form_(form),
      file_(std::move(file)),
      archive_(file_.get()),
      done_(std::move(done)) {}

void Export::OnPool(std::function<Status()> work, std::function<void()> next) {
  auto status = std::make_shared<Status>();
  loop_.RunBlocking([work = std::move(work), status] { *status = work(); },
                    [self = shared_from_this(), next = std::move(next), status] {
                      if (self->owner_.expired()) return;
                      if (!*status) return self->done_(Fail(std::move(*status).error()));
                      next();
                    });
}

void Export::PackNext() {
  if (packed_.size() == layers_.size()) {
    return OnPool([this, self = shared_from_this()] { return Finish(); },
                  [this] { done_(std::move(file_)); });
  }
  OnPool([this, self = shared_from_this()] { return archive_.BeginMember(); },
         [this] {
           runner_.PackLayer(layers_[packed_.size()].id, file_.get(),
                             [self = shared_from_this()](const Result<std::string>& report) {
                               if (!self->owner_.expired()) self->Packed(report);
                             });
         });
}

void Export::Packed(const Result<std::string>& text) {
  if (!text) return done_(Fail(DecodeUnpackError(text.error())));
  const auto report = ParseUnpackReport(*text);
  if (!report) return done_(Fail(report.error()));
  const Status same = CompareContent(layers_[packed_.size()], report->content);
  if (!same) return done_(Fail(same.error()));
  const std::string& content = report->content;
  // Two layers may have equal content, for instance of sandboxes that wrote the same or nothing.
  // The archive holds each blob once.
  const bool again = std::any_of(packed_.begin(), packed_.end(),
                                 [&](const Packing& other) { return other.content == content; });
  packed_.push_back({content, report->bytes});
  OnPool(
      [this, self = shared_from_this(), again] {
        if (again) return archive_.DropMember();
        const std::string& blob = packed_.back().content;
        return archive_.EndMember(form_ == ArchiveForm::kOci ? BlobName(blob)
                                                             : HexOf(blob) + "/layer.tar");
      },
      [this] { PackNext(); });
}

Status Export::Finish() {
  Json diff_ids = Json::array();
  for (const Packing& layer : packed_) diff_ids.push_back(layer.content);
  const ImageConfig& process = image_.config;
  Json config = JsonOrNull(EncodeImageConfig(process));
  config.erase("Architecture");
  for (const char* key : {"Entrypoint", "Cmd", "WorkingDir", "User"}) {
    if (config[key].empty() || config[key] == "") config.erase(key);
  }
  if (!image_.facts.empty()) config["Labels"][kFactsLabel] = image_.facts;
  const std::string architecture =
      process.architecture.empty() ? std::string(HostArchitecture()) : process.architecture;
  const std::string text = JsonText({{"architecture", architecture},
                                     {"os", "linux"},
                                     {"config", std::move(config)},
                                     {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}});
  ATOLL_TRY(form_ == ArchiveForm::kOci ? FinishOci(text) : FinishDocker(text));
  return archive_.Finish();
}

Status Export::FinishOci(const std::string& config) {
  const std::string config_digest = Sha256Of(config);
  Json layers = Json::array();
  for (const Packing& layer : packed_) {
    layers.push_back(
        DescriptorJson("application/vnd.oci.image.layer.v1.tar", layer.content, layer.size));
  }
  const std::string manifest =
      JsonText({{"schemaVersion", 2},
                {"mediaType", kManifestType},
                {"config", DescriptorJson("application/vnd.oci.image.config.v1+json", config_digest,
                                          config.size())},
                {"layers", std::move(layers)}});
  ATOLL_TRY(archive_.AddMember(BlobName(config_digest), config));
  ATOLL_TRY(archive_.AddMember(BlobName(Sha256Of(manifest)), manifest));
  return archive_.AddLayout(image_.name, Sha256Of(manifest), manifest.size());
}

Status Export::FinishDocker(const std::string& config) {
  Json layers = Json::array();
  for (const Packing& layer : packed_) layers.push_back(HexOf(layer.content) + "/layer.tar");
  const std::string name = HexOf(Sha256Of(config)) + ".json";
  ATOLL_TRY(archive_.AddMember(name, config));
  return archive_.AddMember(
      "manifest.json",
      JsonText(Json::array(
          {{{"Config", name}, {"RepoTags", {image_.name}}, {"Layers", std::move(layers)}}})));
}

}  // namespace atl::images
