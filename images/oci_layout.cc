#include "images/oci_layout.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/image_name.h"
#include "images/report.h"

namespace atl::images {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxIndexEntries = 1024;

// Returns the member if it exists with that type, otherwise null.
const Json* Member(const Json& object, const char* key, Json::value_t type) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() && found->type() == type ? &*found : nullptr;
}

std::string StringMember(const Json& object, const char* key) {
  const Json* member = Member(object, key, Json::value_t::string);
  return member != nullptr ? member->get_ref<const std::string&>() : std::string();
}

bool IsManifestType(std::string_view type) {
  return type == "application/vnd.oci.image.manifest.v1+json" ||
         type == "application/vnd.docker.distribution.manifest.v2+json";
}

bool IsLayerType(std::string_view type) {
  // The specification lists neither xz nor bzip2, but layers of Docker's archives may use them.
  constexpr std::array<std::string_view, 10> kTypes = {
      "application/vnd.oci.image.layer.v1.tar",
      "application/vnd.oci.image.layer.v1.tar+xz",
      "application/vnd.oci.image.layer.v1.tar+bzip2",
      "application/vnd.oci.image.layer.v1.tar+gzip",
      "application/vnd.oci.image.layer.v1.tar+zstd",
      "application/vnd.oci.image.layer.nondistributable.v1.tar",
      "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
      "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
      "application/vnd.docker.image.rootfs.diff.tar",
      "application/vnd.docker.image.rootfs.diff.tar.gzip"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

Result<Descriptor> ParseDescriptor(const Json& json, std::string_view what) {
  Descriptor descriptor;
  descriptor.digest = StringMember(json, "digest");
  descriptor.media_type = StringMember(json, "mediaType");
  if (!IsSha256Digest(descriptor.digest)) {
    return Fail(Code::kInvalidArgument, std::string(what) + ": digest '" +
                                            Printable(descriptor.digest) +
                                            "' is not sha256:<64 hexadecimal digits>");
  }
  const Json* size = Member(json, "size", Json::value_t::number_unsigned);
  if (size == nullptr) {
    return Fail(Code::kInvalidArgument, std::string(what) + ": no valid size");
  }
  descriptor.size = size->get<uint64_t>();
  descriptor.is_index = IsIndexType(descriptor.media_type);
  return descriptor;
}

std::string Platform(const Json& entry) {
  const Json* platform = Member(entry, "platform", Json::value_t::object);
  if (platform == nullptr) return {};
  return StringMember(*platform, "os") + "/" + StringMember(*platform, "architecture");
}

std::string RefName(const Json& entry) {
  const Json* annotations = Member(entry, "annotations", Json::value_t::object);
  if (annotations == nullptr) return {};
  // containerd and buildx put the full name into their own annotation and only the tag into the
  // standard one.
  std::string name = StringMember(*annotations, "io.containerd.image.name");
  return name.empty() ? StringMember(*annotations, "org.opencontainers.image.ref.name") : name;
}

bool SameName(const std::string& a, std::string_view b) {
  if (a.empty() || b.empty()) return false;
  const auto left = NormaliseImageName(a);
  const auto right = NormaliseImageName(b);
  return left && right && *left == *right;
}

}  // namespace

bool IsIndexType(std::string_view type) {
  return type == "application/vnd.oci.image.index.v1+json" ||
         type == "application/vnd.docker.distribution.manifest.list.v2+json";
}

std::string_view HostArchitecture() {
#if defined(__x86_64__)
  return "amd64";
#elif defined(__aarch64__)
  return "arm64";
#else
#error "use Go's name of this architecture"
#endif
}

namespace {

// Returns the entries for this host's platform, at least one.
Result<std::vector<Descriptor>> FittingManifests(std::string_view index_json) {
  ATOLL_ASSIGN(const Json index, ParseForeignObject(index_json, "index.json"));
  const Json* entries = Member(index, "manifests", Json::value_t::array);
  if (entries == nullptr || entries->empty()) {
    return Fail(Code::kInvalidArgument, "index.json: it lists no manifest");
  }
  if (entries->size() > kMaxIndexEntries) {
    return Fail(Code::kInvalidArgument,
                "index.json: more than " + std::to_string(kMaxIndexEntries) + " manifests");
  }
  const std::string host = "linux/" + std::string(HostArchitecture());
  std::vector<Descriptor> fitting;
  std::string others;
  for (const Json& entry : *entries) {
    const std::string platform = Platform(entry);
    const std::string type = StringMember(entry, "mediaType");
    // "unknown/unknown" entries are build attestations.
    if (!platform.empty() && platform != host) {
      if (others.size() < 200 && platform != "unknown/unknown") {
        others += (others.empty() ? "" : ", ") + Printable(platform, 40);
      }
      continue;
    }
    if (!IsIndexType(type) && !IsManifestType(type)) continue;
    ATOLL_ASSIGN(Descriptor descriptor, ParseDescriptor(entry, "index.json"));
    descriptor.ref_name = RefName(entry);
    fitting.push_back(std::move(descriptor));
  }
  if (fitting.empty()) {
    return Fail(Code::kInvalidArgument,
                "the archive has no image for " + host +
                    (others.empty() ? std::string() : ", only for " + others));
  }
  return fitting;
}

}  // namespace

Result<Descriptor> ChooseManifest(std::string_view index_json, std::string_view wanted) {
  ATOLL_ASSIGN(std::vector<Descriptor> fitting, FittingManifests(index_json));
  // Several names of the same image are not ambiguous.
  const bool same = std::all_of(fitting.begin(), fitting.end(), [&](const Descriptor& other) {
    return other.digest == fitting[0].digest;
  });
  std::string names;
  for (Descriptor& descriptor : fitting) {
    if (SameName(descriptor.ref_name, wanted)) return std::move(descriptor);
    if (names.size() < 200) {
      names += (names.empty() ? "" : ", ") +
               (descriptor.ref_name.empty() ? "(no name)" : Printable(descriptor.ref_name, 80));
    }
  }
  if (same) return fitting[0];
  return Fail(Code::kInvalidArgument, "the archive holds " + std::to_string(fitting.size()) +
                                          " images (" + names +
                                          "); give the name of the wanted image");
}

Result<std::vector<Descriptor>> ChooseManifests(std::string_view index_json,
                                                std::string_view wanted) {
  if (wanted.empty()) return FittingManifests(index_json);
  std::vector<Descriptor> chosen;
  ATOLL_ASSIGN(chosen.emplace_back(), ChooseManifest(index_json, wanted));
  return chosen;
}

Result<Manifest> ParseManifest(std::string_view json) {
  ATOLL_ASSIGN(const Json root, ParseForeignObject(json, "manifest"));
  const Json* config = Member(root, "config", Json::value_t::object);
  if (config == nullptr) return Fail(Code::kInvalidArgument, "manifest: no config");
  Manifest manifest;
  ATOLL_ASSIGN(manifest.config, ParseDescriptor(*config, "manifest: config"));
  // Go writes null for an image without layers.
  const Json* layers = Member(root, "layers", Json::value_t::array);
  if (layers == nullptr) {
    if (const Json other = root.value("layers", Json()); !other.is_null()) {
      return Fail(Code::kInvalidArgument, "manifest: layers is not an array");
    }
    return manifest;
  }
  if (layers->size() > wire::kMaxLayers) {
    return Fail(Code::kInvalidArgument,
                "manifest: the image has " + std::to_string(layers->size()) + " layers, " +
                    std::to_string(wire::kMaxLayers) + " are allowed; squash it");
  }
  for (const Json& entry : *layers) {
    ATOLL_ASSIGN(Descriptor layer, ParseDescriptor(entry, "manifest: layer"));
    if (!IsLayerType(layer.media_type)) {
      return Fail(Code::kInvalidArgument, "manifest: layer of type '" +
                                              Printable(layer.media_type) +
                                              "'; tar is known, with +gzip, +zstd, +xz or +bzip2");
    }
    manifest.layers.push_back(std::move(layer));
  }
  return manifest;
}

}  // namespace atl::images
