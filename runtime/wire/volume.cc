#include "runtime/wire/volume.h"

#include <algorithm>

#include "runtime/wire/object_store.h"

namespace atl::wire {
namespace {

constexpr size_t kMaxName = 253;
constexpr size_t kMaxPath = 4095;  // PATH_MAX without its NUL

Error Bad(const Volume& volume, const std::string& why) {
  return Error(Code::kInvalidArgument, "volume at '" + volume.target.substr(0, 128) + "': " + why);
}

}  // namespace

bool LowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool ValidVolumeName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && LowerOrDigit(name.front()) &&
         LowerOrDigit(name.back()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return LowerOrDigit(c) || c == '-'; });
}

std::string VolumeDirectory(std::string_view tenant, std::string_view name) {
  std::string directory(tenant);
  if (!tenant.empty()) directory += '.';
  return directory.append(name);
}

bool ValidVolumeDirectory(std::string_view directory) {
  const size_t point = directory.find('.');
  if (point == std::string_view::npos) return ValidVolumeName(directory);
  // The name of a tenant may end with '-'.
  return point != 0 && directory.size() <= kMaxName &&
         ValidVolumeName(std::string(directory.substr(0, point)) + "0") &&
         ValidVolumeName(directory.substr(point + 1));
}

std::string_view VolumeNameOf(std::string_view directory) {
  return directory.substr(directory.find('.') + 1);
}

bool PlainRelativePath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath || path.find('\0') != std::string_view::npos) {
    return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") return false;
    begin = end + 1;
  }
  return true;
}

bool PlainAbsolutePath(std::string_view path) {
  return path.starts_with('/') && PlainRelativePath(path.substr(1));
}

Status CheckForm(const Volume& volume) {
  if (!PlainAbsolutePath(volume.target)) {
    return Fail(Bad(volume,
                    "the target must be an absolute path other than /, without '.', '..' "
                    "and empty components"));
  }
  if (!volume.sub_path.empty() && !PlainRelativePath(volume.sub_path)) {
    return Fail(Bad(volume, "the sub path '" + volume.sub_path.substr(0, 128) +
                                "' must be relative, without '.', '..' and empty components"));
  }
  const std::string source = "'" + volume.source.substr(0, 128) + "'";
  if (volume.kind == Volume::Kind::kNamed && !ValidVolumeDirectory(volume.source)) {
    return Fail(Bad(volume, source + " is not a volume name"));
  }
  if (volume.kind == Volume::Kind::kHost && !PlainAbsolutePath(volume.source)) {
    return Fail(Bad(volume, "the host path " + source +
                                " must be absolute, without '.', '..' and empty components"));
  }
  if (volume.kind == Volume::Kind::kObjects && !ParseSource(volume.source)) {
    return Fail(Bad(volume, source + " is not a bucket of a store"));
  }
  if (volume.kind == Volume::Kind::kObjects && !ValidPrefix(volume.sub_path)) {
    return Fail(Bad(volume, "the sub path of a bucket must not contain ':' or control characters"));
  }
  if (volume.kind != Volume::Kind::kObjects && volume.own_credentials) {
    return Fail(Bad(volume, "only a bucket has credentials"));
  }
  return {};
}

Status CheckForm(const std::vector<Volume>& volumes) {
  size_t buckets = 0;
  for (const Volume& volume : volumes) ATOLL_TRY(CheckForm(volume));
  for (const Volume& bucket : volumes) {
    if (bucket.kind != Volume::Kind::kObjects) continue;
    if (++buckets > kMaxBuckets) return Fail(Bad(bucket, "exceeds the limit of buckets"));
    for (const Volume& volume : volumes) {
      if (volume.target.starts_with(bucket.target + "/")) {
        return Fail(Bad(volume, "is mounted within the bucket at '" + bucket.target.substr(0, 128) +
                                    "', which is not possible"));
      }
    }
  }
  return {};
}

}  // namespace atl::wire
