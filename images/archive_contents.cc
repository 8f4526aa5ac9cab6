#include "images/archive_contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/oci_layout.h"
#include "images/report.h"
#include "runtime/base/sys.h"

namespace atl::images {
namespace {

// An index may refer to another index (docker buildx writes it so), but not endlessly.
constexpr int kMaxIndexDepth = 3;

Result<UniqueFd> OpenMember(int directory, const std::string& name) {
  // O_NONBLOCK, because a FIFO must not block the thread.
  ATOLL_ASSIGN(UniqueFd fd, sys::OpenBeneath(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return FailSys("fstat " + name);
  if (!S_ISREG(st.st_mode)) {
    return Fail(Code::kInternal, "atoll-unpack left '" + name + "', which is not a regular file");
  }
  return fd;
}

Status CheckSize(int fd, const Descriptor& descriptor, std::string_view what) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return FailSys("fstat blob");
  if (static_cast<uint64_t>(st.st_size) != descriptor.size) {
    return Fail(Code::kInvalidArgument, std::string(what) + " " + descriptor.digest +
                                            ": the archive has " + std::to_string(st.st_size) +
                                            " bytes of it, but its descriptor says " +
                                            std::to_string(descriptor.size));
  }
  return {};
}

Error Mismatch(std::string_view what, const std::string& wanted, const std::string& found) {
  return Error(Code::kInvalidArgument, std::string(what) + " " + wanted +
                                           ": digest mismatch, the archive holds " + found +
                                           "; it is damaged or forged");
}

Result<std::string> ReadVerified(int directory, const Descriptor& descriptor,
                                 std::string_view what) {
  auto fd = OpenBlob(directory, descriptor.digest);
  if (!fd) return Fail(std::move(fd).error().Wrap(what));
  ATOLL_TRY(CheckSize(fd->get(), descriptor, what));
  auto bytes = sys::ReadAll(fd->get(), kMaxJsonBytes);
  if (!bytes) return Fail(std::move(bytes).error().Wrap(what));
  const std::string found = Sha256Of(*bytes);
  if (found != descriptor.digest) return Fail(Mismatch(what, descriptor.digest, found));
  return bytes;
}

Result<std::string> ReadIndex(int directory) {
  auto fd = OpenMember(directory, "index.json");
  if (fd) return sys::ReadAll(fd->get(), kMaxJsonBytes);
  if (fd.error().error_number() != ENOENT) return Fail(std::move(fd).error());
  return Fail(Code::kInvalidArgument,
              "not an image archive: it has neither index.json (OCI layout) nor manifest.json "
              "(docker save); make one with: skopeo copy docker://NAME oci-archive:OUT");
}

// An image that index.json leads to.
struct Found {
  Descriptor manifest;
  std::vector<std::string> names;
};

// Returns each wanted image once, with the names in the outermost index, which users gave.
Result<std::vector<Found>> FindManifests(int directory, std::string_view wanted) {
  ATOLL_ASSIGN(const std::string json, ReadIndex(directory));
  ATOLL_ASSIGN(const std::vector<Descriptor> chosen, ChooseManifests(json, wanted));
  std::vector<Found> images;
  size_t names = 0;
  for (const Descriptor& entry : chosen) {
    auto image = std::find_if(images.begin(), images.end(), [&entry](const Found& other) {
      return other.manifest.digest == entry.digest;
    });
    if (image == images.end()) image = images.insert(image, Found{entry, {}});
    if (!entry.ref_name.empty()) image->names.push_back(entry.ref_name);
    if (++names > kMaxArchiveNames) {
      return Fail(Code::kInvalidArgument,
                  "the archive has more than " + std::to_string(kMaxArchiveNames) +
                      " images and names; give the name of the wanted image");
    }
  }
  return images;
}

// Returns the verified bytes of the manifest. `manifest` may be an index that leads to it, and is
// then replaced.
Result<std::string> ReadManifest(int directory, std::string_view wanted, Descriptor& manifest,
                                 std::vector<std::string>& names) {
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    ATOLL_ASSIGN(std::string json,
                 ReadVerified(directory, manifest, manifest.is_index ? "index" : "manifest"));
    if (!manifest.is_index) return json;
    ATOLL_ASSIGN(manifest, ChooseManifest(json, wanted));
    if (names.empty() && !manifest.ref_name.empty()) names.push_back(manifest.ref_name);
  }
  return Fail(Code::kInvalidArgument,
              "index.json: indexes nested more than " + std::to_string(kMaxIndexDepth) + " deep");
}

Status VerifyLayer(int directory, const Descriptor& layer) {
  auto fd = OpenBlob(directory, layer.digest);
  if (!fd) return Fail(std::move(fd).error().Wrap("layer"));
  ATOLL_TRY(CheckSize(fd->get(), layer, "layer"));
  ATOLL_ASSIGN(const std::string found, Sha256OfFile(fd->get()));
  if (found != layer.digest) return Fail(Mismatch("layer", layer.digest, found));
  return {};
}

}  // namespace

Result<UniqueFd> OpenBlob(int directory, std::string_view digest) {
  if (!IsSha256Digest(digest)) return Fail(Code::kInvalidArgument, "not a sha256 digest");
  auto fd = OpenMember(directory, HexOf(digest));
  if (!fd && fd.error().error_number() == ENOENT) {
    return Fail(Code::kInvalidArgument,
                "blob " + std::string(digest) + " is missing in the archive and in the store");
  }
  return fd;
}

namespace {

// Adds the layer of an image without layers: the tar without entries that docker writes for a step
// that changes nothing. Its file may be in the archive already.
Result<ArchiveLayer> AddEmptyLayer(int directory) {
  const std::string tar(1024, '\0');
  const Descriptor layer{Sha256Of(tar), tar.size(), {}, {}, false};
  auto file = sys::OpenBeneath(directory, HexOf(layer.digest), O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (file) {
    ATOLL_TRY(sys::WriteAll(file->get(), tar));
  } else if (file.error().error_number() != EEXIST) {
    return Fail(std::move(file).error());
  } else {
    ATOLL_TRY(VerifyLayer(directory, layer));
  }
  return ArchiveLayer{layer.digest, layer.digest};
}

Result<ArchiveContents> ReadImage(int directory, std::string_view wanted, Found found,
                                  const std::function<bool(const std::string&)>& here,
                                  std::set<std::string>& verified) {
  ArchiveContents contents;
  ATOLL_ASSIGN(const std::string manifest_json,
               ReadManifest(directory, wanted, found.manifest, found.names));
  contents.names = std::move(found.names);
  contents.manifest_digest = found.manifest.digest;
  ATOLL_ASSIGN(const Manifest manifest, ParseManifest(manifest_json));
  ATOLL_ASSIGN(const std::string config_json, ReadVerified(directory, manifest.config, "config"));
  ATOLL_ASSIGN(ParsedConfig config, ParseConfig(config_json));
  if (config.diff_ids.size() != manifest.layers.size()) {
    return Fail(Code::kInvalidArgument,
                "the manifest has " + std::to_string(manifest.layers.size()) +
                    " layers, the config " + std::to_string(config.diff_ids.size()) + " diff_ids");
  }
  for (size_t i = 0; i < manifest.layers.size(); ++i) {
    const Descriptor& layer = manifest.layers[i];
    // A layer is hashed once even if it is listed a hundred times.
    if (!here(layer.digest) && verified.insert(layer.digest).second) {
      ATOLL_TRY(VerifyLayer(directory, layer));
    }
    contents.layers.push_back({layer.digest, config.diff_ids[i]});
  }
  if (contents.layers.empty()) {
    ATOLL_ASSIGN(contents.layers.emplace_back(), AddEmptyLayer(directory));
  }
  contents.config = std::move(config.config);
  contents.facts = std::move(config.facts);
  return contents;
}

}  // namespace

Result<std::vector<ArchiveContents>> ReadArchiveContents(
    int directory, std::string_view wanted,
    const std::function<bool(const std::string& blob_digest)>& here) {
  ATOLL_ASSIGN(std::vector<Found> images, FindManifests(directory, wanted));
  std::vector<ArchiveContents> contents;
  std::set<std::string> verified;
  for (Found& image : images) {
    ATOLL_ASSIGN(contents.emplace_back(),
                 ReadImage(directory, wanted, std::move(image), here, verified));
  }
  return contents;
}

}  // namespace atl::images
