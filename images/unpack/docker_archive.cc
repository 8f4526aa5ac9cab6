#include "images/unpack/docker_archive.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "images/digest.h"
#include "images/docker_manifest.h"
#include "images/foreign_json.h"
#include "images/report.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

using Json = nlohmann::json;

constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";
constexpr char kConfigType[] = "application/vnd.oci.image.config.v1+json";

// Decides by the bytes, not by the name: "docker save" writes plain layers, other tools compress
// them.
Result<std::string> LayerType(int fd) {
  char magic[6] = {};
  const ssize_t n = TEMP_FAILURE_RETRY(::pread(fd, magic, sizeof magic, 0));
  if (n < 0) return FailSys("read layer");
  const std::string_view start(magic, sizeof magic);
  std::string type = "application/vnd.oci.image.layer.v1.tar";
  if (start.starts_with("\x1f\x8b")) type += "+gzip";
  if (start.starts_with("\x28\xb5\x2f\xfd")) type += "+zstd";
  if (start == std::string_view("\xfd"
                                "7zXZ\0",
                                6))
    type += "+xz";
  if (start.starts_with("BZh")) type += "+bzip2";
  return type;
}

class Conversion {
 public:
  Conversion(const Members& members, int directory) : members_(members), directory_(directory) {}

  Status Run();

 private:
  Result<Json> Config(const std::string& path);
  Result<Json> Layer(const std::string& path);
  // Names the member after its digest.
  Result<Json> Blob(const std::string& path, int fd, const std::string& type);
  Status AddImage(const DockerImage& image);
  Status Write(const std::string& name, const std::string& bytes);

  const Members& members_;
  int directory_;
  // descriptors by path, because images of one archive share layers
  std::map<std::string, Json> layers_;
  Json index_ = Json::array();
};

Result<Json> Conversion::Blob(const std::string& path, int fd, const std::string& type) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return FailSys("fstat '" + Printable(path) + "'");
  ATOLL_ASSIGN(const std::string digest, Sha256OfFile(fd));
  ATOLL_TRY(members_.Name(path, HexOf(digest)));
  return Json{{"mediaType", type}, {"digest", digest}, {"size", st.st_size}};
}

Result<Json> Conversion::Config(const std::string& path) {
  ATOLL_ASSIGN(const UniqueFd fd, members_.Open(path));
  ATOLL_ASSIGN(Json config, Blob(path, fd.get(), kConfigType));
  // Most archives name the config after its digest. The config's diff_ids verify the layers.
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  const std::string found = HexOf(config["digest"].get_ref<const std::string&>());
  if (IsSha256Digest("sha256:" + name) && name != found) {
    return Fail(Code::kInvalidArgument, "config '" + Printable(path) +
                                            "': digest mismatch, the archive holds " + found +
                                            "; it is damaged or forged");
  }
  return config;
}

Result<Json> Conversion::Layer(const std::string& path) {
  const auto known = layers_.find(path);
  if (known != layers_.end()) return known->second;
  ATOLL_ASSIGN(const UniqueFd fd, members_.Open(path));
  ATOLL_ASSIGN(const std::string type, LayerType(fd.get()));
  ATOLL_ASSIGN(Json layer, Blob(path, fd.get(), type));
  return layers_.emplace(path, std::move(layer)).first->second;
}

Status Conversion::Write(const std::string& name, const std::string& bytes) {
  auto fd = sys::OpenBeneath(directory_, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  // The file exists if two entries are the same image, or if the archive has the manifest itself.
  // The name is the digest, so the bytes are the same.
  if (!fd && fd.error().error_number() == EEXIST) return {};
  if (!fd) return Fail(std::move(fd).error());
  return sys::WriteAll(fd->get(), bytes);
}

Status Conversion::AddImage(const DockerImage& image) {
  Json manifest = {{"schemaVersion", 2}, {"mediaType", kManifestType}, {"layers", Json::array()}};
  ATOLL_ASSIGN(manifest["config"], Config(image.config));
  for (const std::string& path : image.layers) {
    ATOLL_ASSIGN(manifest["layers"].emplace_back(), Layer(path));
  }
  const std::string bytes = JsonText(manifest);
  const std::string digest = Sha256Of(bytes);
  ATOLL_TRY(Write(HexOf(digest), bytes));
  const Json entry = {{"mediaType", kManifestType}, {"digest", digest}, {"size", bytes.size()}};
  for (const std::string& tag : image.tags) {
    index_.push_back(entry);
    index_.back()["annotations"] = {{"org.opencontainers.image.ref.name", tag}};
  }
  if (image.tags.empty()) index_.push_back(entry);
  return {};
}

Status Conversion::Run() {
  ATOLL_ASSIGN(const UniqueFd fd, members_.Open("manifest.json"));
  ATOLL_ASSIGN(const std::string json, sys::ReadAll(fd.get(), kMaxJsonBytes));
  ATOLL_ASSIGN(const std::vector<DockerImage> images, ParseDockerManifest(json));
  for (const DockerImage& image : images) ATOLL_TRY(AddImage(image));
  return Write("index.json", JsonText({{"schemaVersion", 2}, {"manifests", index_}}));
}

}  // namespace

Status WriteOciLayout(const Members& members, int directory) {
  return Conversion(members, directory).Run();
}

}  // namespace atl::images::unpack
