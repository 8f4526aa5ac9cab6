#include "runtime/api/requests/volume_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/api/gate/json.h"
#include "runtime/base/json_text.h"

namespace atl::api {
namespace {

constexpr char kLabelPattern[] = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
constexpr size_t kMaxVolumeName = 63;
constexpr size_t kMaxClaimName = 253;
constexpr size_t kMinBucket = 3;
constexpr size_t kMaxBucket = 63;
// The same limits as for a sandbox's own disk.
constexpr uint64_t kMinStorage = 1 << 20;
constexpr uint64_t kMaxStorage = 64ULL << 40;

// The message is for people. Upstream's clients find the pattern itself in the context.
void MismatchesPattern(const Field& field, const std::string& form, const char* pattern) {
  field.Complain("string_pattern_mismatch", "String should be " + form,
                 JsonText({{"pattern", pattern}}));
}

bool InLength(const Field& field, const std::string& text, size_t min, size_t max) {
  if (text.size() < min) {
    field.Complain("string_too_short",
                   "String should have at least " + std::to_string(min) + " characters",
                   JsonText({{"min_length", min}}));
    return false;
  }
  if (text.size() > max) {
    field.Complain("string_too_long",
                   "String should have at most " + std::to_string(max) + " characters",
                   JsonText({{"max_length", max}}));
    return false;
  }
  return true;
}

// Reads a required string.
bool Required(const Field& field, std::string* out) {
  if (!field.present()) {
    field.Missing();
    return false;
  }
  return field.String(out);
}

void ReadLabel(const Field& field, size_t max, std::string* out) {
  if (!Required(field, out) || !InLength(field, *out, 0, max)) return;
  if (!wire::ValidVolumeName(*out)) {
    MismatchesPattern(field, "lower-case letters, digits and '-', not beginning or ending with '-'",
                      kLabelPattern);
  }
}

void ReadMountPath(const Field& field, std::string* out) {
  if (Required(field, out) && !out->starts_with('/')) {
    MismatchesPattern(field, "an absolute path, such as '/data'", "^/.*");
  }
}

bool DrivePath(std::string_view path) {
  return path.size() >= 3 && ((path[0] | 0x20) >= 'a' && (path[0] | 0x20) <= 'z') &&
         path[1] == ':' && (path[2] == '\\' || path[2] == '/');
}

void ReadHost(const Field& host, VolumeRequest* out) {
  const Field path = host.At("path");
  if (Required(path, &out->source) && !out->source.starts_with('/') && !DrivePath(out->source)) {
    MismatchesPattern(path, "an absolute path, such as '/srv/data'", "^(/|[A-Za-z]:[\\\\/])");
  }
}

// Parses "10Gi", "1.5Ti" or "1024" to bytes. Nothing: another form, or a size beyond any disk.
std::optional<uint64_t> StorageSize(std::string_view text) {
  // from_chars would also accept "inf", "nan" and a sign.
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view written(text.data(), static_cast<size_t>(rest - text.data()));
  if (error != std::errc() || written.back() == '.') return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (!unit.empty()) {
    const size_t power = std::string_view("KMGTPE").find(unit[0]);
    if (unit.size() != 2 || unit[1] != 'i' || power == std::string_view::npos) return std::nullopt;
    number *= std::pow(1024.0, static_cast<double>(power + 1));
  }
  return static_cast<uint64_t>(std::min(number, static_cast<double>(kMaxStorage)));
}

void ReadStorage(const Field& field, std::string* out) {
  if (field.String(out) && !StorageSize(*out)) {
    MismatchesPattern(field,
                      "a number of bytes, or a number with one of the units Ki, Mi, Gi, Ti, Pi and "
                      "Ei, such as '10Gi' or '1.5Ti'",
                      "^\\d+(\\.\\d+)?(Ki|Mi|Gi|Ti|Pi|Ei)?$");
  }
}

void ReadClaim(const Field& claim, VolumeRequest* out) {
  out->backend = VolumeRequest::Backend::kClaim;
  ReadLabel(claim.At("claimName"), kMaxClaimName, &out->source);
  claim.At("createIfNotExists").Bool(&out->create_if_missing);
  claim.At("deleteOnSandboxTermination").Bool(&out->delete_with_sandbox);
  ReadStorage(claim.At("storage"), &out->storage);
  // These members configure a cluster's storage. Their form is checked, and their values are
  // ignored, as upstream does on one host.
  std::string ignored;
  claim.At("storageClass").String(&ignored);
  std::vector<std::string> modes;
  claim.At("accessModes").Strings(0, &modes);
}

void ReadOssfs(const Field& ossfs, VolumeRequest* out) {
  out->backend = VolumeRequest::Backend::kOssfs;
  const Field bucket = ossfs.At("bucket");
  if (Required(bucket, &out->source)) InLength(bucket, out->source, kMinBucket, kMaxBucket);
  const Field endpoint = ossfs.At("endpoint");
  if (Required(endpoint, &out->endpoint)) InLength(endpoint, out->endpoint, 1, SIZE_MAX);
  // Upstream requires both keys. Here both may be absent, which means the operator's credentials.
  const Field key = ossfs.At("accessKeyId"), secret = ossfs.At("accessKeySecret");
  for (const auto& [field, other, text] :
       {std::tuple{&key, &secret, &out->key}, std::tuple{&secret, &key, &out->secret}}) {
    if (field->present() || other->present()) {
      if (Required(*field, text)) InLength(*field, *text, 1, SIZE_MAX);
    }
  }
  std::string text;
  const Field version = ossfs.At("version");
  if (version.String(&text) && text != "1.0" && text != "2.0") {
    version.Complain("literal_error", "Input should be '1.0' or '2.0'",
                     JsonText({{"expected", "'1.0' or '2.0'"}}));
  }
  const Field options = ossfs.At("options");
  options.Strings(0, &out->options);
  if (std::any_of(out->options.begin(), out->options.end(),
                  [](const std::string& value) { return value.starts_with('-'); })) {
    options.BreaksRule("ossfs options must not begin with a dash.");
  }
}

VolumeRequest ReadVolume(const Field& item) {
  VolumeRequest request;
  ReadLabel(item.At("name"), kMaxVolumeName, &request.name);
  ReadMountPath(item.At("mountPath"), &request.mount_path);
  item.At("readOnly").Bool(&request.read_only);
  item.At("subPath").String(&request.sub_path);
  const Field host = item.At("host");
  const Field claim = item.At("pvc");
  const Field ossfs = item.At("ossfs");
  if (host.IsObject()) ReadHost(host, &request);
  if (claim.IsObject()) ReadClaim(claim, &request);
  if (ossfs.IsObject()) ReadOssfs(ossfs, &request);
  const int backends = int{host.present()} + int{claim.present()} + int{ossfs.present()};
  if (backends != 1) {
    item.BreaksRule("Exactly one backend (host, pvc, ossfs) must be specified, but " +
                    std::string(backends == 0 ? "none was" : "several were") + " provided.");
  }
  return request;
}

ApiError Wrong(const char* code, const VolumeRequest& request, const std::string& why) {
  return {400, code, "volume '" + request.name + "': " + why};
}

// Normalises a path: "//a/./b/" gives "/a/b".
std::string Normal(const std::string& path) {
  std::string normal;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, end - begin);
    if (!component.empty() && component != ".") normal += "/" + component;
    begin = end + 1;
  }
  return normal;
}

// Parses and checks a volume's size limit. Empty text keeps the default.
std::optional<ApiError> CheckStorage(const std::string& name, const std::string& text,
                                     uint64_t* bytes) {
  if (text.empty()) return std::nullopt;
  *bytes = StorageSize(text).value_or(0);
  if (*bytes >= kMinStorage) return std::nullopt;
  return ApiError{400, "SANDBOX::INVALID_PARAMETER",
                  "volume '" + name + "': storage '" + text + "' is too little; use from 1Mi"};
}

bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

std::optional<ApiError> CheckMountPath(const VolumeRequest& request, std::string* target) {
  constexpr char kCode[] = "VOLUME::INVALID_MOUNT_PATH";
  *target = Normal(request.mount_path);
  const std::string shown = "mountPath '" + request.mount_path.substr(0, 200) + "'";
  if (!wire::PlainAbsolutePath(*target)) {
    return Wrong(kCode, request, shown + " must be an absolute path other than /, without '..'");
  }
  for (const std::string_view kept : {"/proc", "/sys", "/dev"}) {
    if (*target == kept || target->starts_with(std::string(kept) + "/")) {
      return Wrong(kCode, request,
                   shown + " lies at or under " + std::string(kept) +
                       ", which every sandbox has of its own; choose another");
    }
  }
  return std::nullopt;
}

std::optional<ApiError> CheckSubPath(const VolumeRequest& request, std::string* sub_path) {
  *sub_path = Normal(request.sub_path);
  if (sub_path->empty() && !request.sub_path.starts_with('/')) return std::nullopt;
  if (request.sub_path.starts_with('/') || !wire::PlainAbsolutePath(*sub_path)) {
    return Wrong(
        "VOLUME::INVALID_SUB_PATH", request,
        "subPath '" + request.sub_path.substr(0, 200) + "' must be a relative path without '..'");
  }
  sub_path->erase(0, 1);
  return std::nullopt;
}

std::optional<ApiError> CheckHostPath(const VolumeRequest& request) {
  if (wire::PlainAbsolutePath(request.source) && !HasNul(request.source)) return std::nullopt;
  return Wrong("VOLUME::INVALID_HOST_PATH", request,
               "host.path '" + request.source.substr(0, 200) +
                   "' must be an absolute path of this host other than /, without '.', '..', '//' "
                   "and a slash at the end");
}

// "@NAME" instead of a key names the operator's credentials for that store, for clients that must
// send a key. accessKeySecret is then ignored.
constexpr char kReference = '@';

std::optional<ApiError> CheckCredentials(const VolumeRequest& request,
                                         sandbox::VolumeMount* mount) {
  mount->bucket.endpoint = request.endpoint;
  if (request.key.empty()) return std::nullopt;
  if (request.key.front() == kReference) {
    mount->bucket.credentials_of = request.key.substr(1);
    return std::nullopt;
  }
  mount->volume.own_credentials = true;
  mount->bucket.credentials = {request.key, request.secret};
  if (wire::ValidCredentials(mount->bucket.credentials)) return std::nullopt;
  return Wrong("VOLUME::INVALID_OSSFS_CREDENTIALS", request,
               "accessKeyId and accessKeySecret must be printable, without blanks, of up to " +
                   std::to_string(wire::kMaxObjectKey) + " bytes, the first one without ':'");
}

std::optional<ApiError> CheckBucket(const VolumeRequest& request, sandbox::VolumeMount* mount) {
  mount->volume.kind = wire::Volume::Kind::kObjects;
  if (!wire::ValidBucketName(request.source)) {
    return Wrong("VOLUME::INVALID_OSSFS_BUCKET", request,
                 "bucket '" + request.source.substr(0, 64) +
                     "' must be of a-z, 0-9, '-' and '.', and begin and end with one of the first "
                     "two");
  }
  if (!wire::ValidPrefix(mount->volume.sub_path)) {
    return Wrong("VOLUME::INVALID_SUB_PATH", request,
                 "subPath '" + mount->volume.sub_path.substr(0, 200) +
                     "' of a bucket must not hold ':' or control characters");
  }
  for (const std::string& option : request.options) {
    if (option == "ro") {
      mount->volume.read_only = true;
    } else if (option != "allow_other") {  // allow_other is always set
      return Wrong("VOLUME::INVALID_OSSFS_OPTION", request,
                   "option '" + option.substr(0, 64) +
                       "' is not offered; ro and allow_other are, everything else is set here");
    }
  }
  return CheckCredentials(request, mount);
}

}  // namespace

std::vector<VolumeRequest> ReadVolumes(const Field& list) {
  std::vector<VolumeRequest> requests;
  if (!list.present()) return requests;
  if (!list.value().is_array()) {
    list.Complain("list_type", "Input should be a valid list");
    return requests;
  }
  // Bounds the work. CheckVolumes reports the limit to clients whose list is well-formed.
  const size_t count = std::min(list.value().size(), wire::kMaxVolumes + 1);
  for (size_t i = 0; i < count; ++i) {
    const Field item = list.Element(i);
    if (!item.present()) {
      item.Complain("model_attributes_type",
                    "Input should be a valid dictionary or object to extract fields from");
    } else if (item.IsObject()) {
      requests.push_back(ReadVolume(item));
    }
  }
  return requests;
}

std::optional<ApiError> CheckVolumes(const std::vector<VolumeRequest>& requests,
                                     std::vector<sandbox::VolumeMount>* mounts) {
  if (requests.size() > wire::kMaxVolumes) {
    return ApiError{400, "SANDBOX::INVALID_PARAMETER",
                    "volumes: a sandbox may have " + std::to_string(wire::kMaxVolumes)};
  }
  std::set<std::string> names;
  std::set<std::string> targets;
  size_t text = 0;
  for (const VolumeRequest& request : requests) {
    if (!names.insert(request.name).second) {
      return Wrong("VOLUME::DUPLICATE_NAME", request, "there are two volumes of this name");
    }
  }
  for (const VolumeRequest& request : requests) {
    sandbox::VolumeMount mount;
    if (auto wrong = CheckMountPath(request, &mount.volume.target)) return wrong;
    if (!targets.insert(mount.volume.target).second) {
      return Wrong("VOLUME::INVALID_MOUNT_PATH", request,
                   "another volume has the mountPath " + mount.volume.target.substr(0, 200));
    }
    if (auto wrong = CheckSubPath(request, &mount.volume.sub_path)) return wrong;
    mount.volume.read_only = request.read_only;
    if (request.backend == VolumeRequest::Backend::kOssfs) {
      if (auto wrong = CheckBucket(request, &mount)) return wrong;
    }
    if (request.backend == VolumeRequest::Backend::kHost) {
      if (auto wrong = CheckHostPath(request)) return wrong;
      mount.volume.kind = wire::Volume::Kind::kHost;
    }
    if (auto wrong = CheckStorage(request.name, request.storage, &mount.disk_bytes)) return wrong;
    mount.volume.source = request.source;
    mount.create_if_missing = request.create_if_missing;
    mount.delete_with_sandbox = request.delete_with_sandbox;
    text += mount.volume.source.size() + mount.volume.sub_path.size() + mount.volume.target.size();
    mounts->push_back(std::move(mount));
  }
  size_t buckets = 0;
  for (const sandbox::VolumeMount& bucket : *mounts) {
    if (bucket.volume.kind != wire::Volume::Kind::kObjects) continue;
    if (++buckets > wire::kMaxBuckets) {
      return ApiError{400, "SANDBOX::INVALID_PARAMETER",
                      "volumes: of buckets at most " + std::to_string(wire::kMaxBuckets)};
    }
    for (const sandbox::VolumeMount& mount : *mounts) {
      if (mount.volume.target.starts_with(bucket.volume.target + "/")) {
        return ApiError{400, "VOLUME::INVALID_MOUNT_PATH",
                        "mountPath " + mount.volume.target.substr(0, 200) +
                            " lies in the bucket at " + bucket.volume.target.substr(0, 200) +
                            ", where no other volume can be"};
      }
    }
  }
  if (text > wire::kMaxVolumeText) {
    return ApiError{400, "SANDBOX::INVALID_PARAMETER",
                    "volumes: their paths have " + std::to_string(text) + " bytes, allowed are " +
                        std::to_string(wire::kMaxVolumeText)};
  }
  return std::nullopt;
}

Parsed<NewVolume> ParseNewVolume(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  NewVolume volume;
  std::string storage;
  if (body.IsRequiredObject()) {
    ReadLabel(body.At("name"), kMaxClaimName, &volume.name);
    ReadStorage(body.At("storage"), &storage);
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  if (auto wrong = CheckStorage(volume.name, storage, &volume.disk_bytes)) {
    return Refuse(wrong->status, wrong->code, wrong->message);
  }
  return volume;
}

}  // namespace atl::api
