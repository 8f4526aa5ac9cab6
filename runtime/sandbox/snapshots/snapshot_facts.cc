#include "runtime/sandbox/snapshots/snapshot_facts.h"

#include <nlohmann/json.hpp>
#include <string>

#include "images/foreign_json.h"
#include "images/image_name.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr char kWhat[] = "the archive's label of a snapshot";

Status CheckForm(const Snapshot& snapshot) {
  const auto refuse = [](const std::string& why) {
    return Fail(Code::kInvalidArgument, kWhat + (": " + why));
  };
  const auto image = images::NormaliseImageName(snapshot.image);
  if (!image || *image != snapshot.image) return refuse("'image' is no image's name");
  if (!ValidSandboxId(snapshot.sandbox_id)) return refuse("'sandbox' is no sandbox's id");
  if (snapshot.name.size() > kMaxSnapshotName) {
    return refuse("'name' is longer than " + std::to_string(kMaxSnapshotName) + " bytes");
  }
  if (snapshot.metadata.size() > kMaxMetadata) {
    return refuse("'metadata' has more than " + std::to_string(kMaxMetadata) + " entries");
  }
  return {};
}

}  // namespace

images::Image ImageOf(const Snapshot& snapshot) {
  images::Image image;
  image.name = "snapshot:" + snapshot.id;
  image.config = snapshot.config;
  image.layers = snapshot.layers;
  image.facts = JsonText({{"image", snapshot.image},
                          {"metadata", snapshot.metadata},
                          {"name", snapshot.name},
                          {"sandbox", snapshot.sandbox_id}});
  return image;
}

Result<Snapshot> SnapshotOf(const images::Image& image) {
  if (image.facts.empty()) {
    return Fail(Code::kInvalidArgument,
                "the archive holds an image, not a snapshot; import it with: atoll image import");
  }
  ATOLL_ASSIGN(const json facts, images::ParseForeignObject(image.facts, kWhat));
  Snapshot snapshot;
  try {
    facts.at("image").get_to(snapshot.image);
    facts.at("metadata").get_to(snapshot.metadata);
    facts.at("name").get_to(snapshot.name);
    facts.at("sandbox").get_to(snapshot.sandbox_id);
  } catch (const json::exception&) {
    return Fail(Code::kInvalidArgument,
                std::string(kWhat) +
                    ": it wants the texts 'image', 'name' and 'sandbox', and "
                    "'metadata' of texts");
  }
  ATOLL_TRY(CheckForm(snapshot));
  snapshot.image_digest = image.digest;
  snapshot.config = image.config;
  snapshot.layers = image.layers;
  return snapshot;
}

}  // namespace atl::sandbox
