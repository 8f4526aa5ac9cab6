#include "images/docker_manifest.h"

#include <nlohmann/json.hpp>

#include "images/foreign_json.h"
#include "images/report.h"
#include "runtime/wire/layer.h"

namespace atl::images {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxPath = 4095;
constexpr size_t kMaxTag = 512;

Error Refusal(const std::string& why) {
  return Error(Code::kInvalidArgument, "manifest.json: " + why);
}

Result<std::string> Text(const Json& json, const std::string& what, size_t limit) {
  if (!json.is_string()) return Fail(Refusal(what + " is not a string"));
  const std::string& text = json.get_ref<const std::string&>();
  if (text.empty() || text.size() > limit || text.find('\0') != std::string::npos) {
    return Fail(Refusal(what + " '" + Printable(text, 80) + "' is empty, longer than " +
                        std::to_string(limit) + " bytes, or holds a zero byte"));
  }
  return text;
}

Result<std::vector<std::string>> Texts(const Json& image, const char* key, size_t limit,
                                       size_t text_limit) {
  std::vector<std::string> texts;
  const auto found = image.find(key);
  if (found == image.end() || found->is_null()) return texts;
  if (!found->is_array()) return Fail(Refusal(std::string(key) + " is not an array"));
  if (found->size() > limit) {
    return Fail(Refusal(std::string(key) + " has " + std::to_string(found->size()) + " entries, " +
                        std::to_string(limit) + " are allowed"));
  }
  for (const Json& entry : *found) {
    ATOLL_ASSIGN(texts.emplace_back(), Text(entry, std::string("an entry of ") + key, text_limit));
  }
  return texts;
}

}  // namespace

Result<std::vector<DockerImage>> ParseDockerManifest(std::string_view json) {
  ATOLL_ASSIGN(const Json root, ParseForeignJson(json, "manifest.json"));
  if (!root.is_array() || root.empty()) return Fail(Refusal("it lists no image"));
  if (root.size() > kMaxDockerImages) {
    return Fail(Refusal("it lists " + std::to_string(root.size()) + " images, " +
                        std::to_string(kMaxDockerImages) + " are allowed"));
  }
  std::vector<DockerImage> images;
  size_t tags = 0;
  for (const Json& entry : root) {
    if (!entry.is_object()) return Fail(Refusal("an image is not an object"));
    DockerImage image;
    const auto config = entry.find("Config");
    if (config == entry.end()) return Fail(Refusal("an image without Config"));
    ATOLL_ASSIGN(image.config, Text(*config, "Config", kMaxPath));
    ATOLL_ASSIGN(image.layers, Texts(entry, "Layers", wire::kMaxLayers, kMaxPath));
    ATOLL_ASSIGN(image.tags, Texts(entry, "RepoTags", kMaxDockerTags, kMaxTag));
    tags += image.tags.size();
    if (tags > kMaxDockerTags) {
      return Fail(Refusal("more than the " + std::to_string(kMaxDockerTags) + " RepoTags allowed"));
    }
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace atl::images
