#include "images/unpack/entry_path.h"

#include <utility>

namespace atl::images::unpack {
namespace {

constexpr std::string_view kWhiteoutPrefix = ".wh.";
constexpr std::string_view kBookkeepingPrefix = ".wh..wh.";
constexpr std::string_view kOpaqueName = ".wh..wh..opq";

// Characters that the mark of a whiteout or of an opaque directory adds to a path.
constexpr size_t kMarkSize = kOpaqueName.size() + 1;
constexpr size_t kMaxXattrName = 255;  // XATTR_NAME_MAX

}  // namespace

Result<std::vector<std::string>> ParseEntryPath(std::string_view name) {
  if (name.empty()) return Fail(Code::kInvalidArgument, "its name is empty");
  if (name.size() > kMaxPath + kMarkSize) {
    return Fail(Code::kInvalidArgument,
                "its name is longer than " + std::to_string(kMaxPath) + " bytes");
  }
  if (name.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "its name contains a zero byte");
  }
  std::vector<std::string> path;
  while (!name.empty()) {
    const size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    name.remove_prefix(slash == std::string_view::npos ? name.size() : slash + 1);
    if (component.empty() || component == ".") continue;
    if (component == "..") return Fail(Code::kInvalidArgument, "its name contains '..'");
    const size_t prefix = component.starts_with(kWhiteoutPrefix) ? kWhiteoutPrefix.size() : 0;
    if (component.size() > kMaxComponent + prefix) {
      return Fail(Code::kInvalidArgument, "a component of its name is longer than " +
                                              std::to_string(kMaxComponent) + " bytes");
    }
    if (path.size() == kMaxDepth + 1) {
      return Fail(Code::kInvalidArgument,
                  "it is nested deeper than " + std::to_string(kMaxDepth) + " directories");
    }
    path.emplace_back(component);
  }
  return path;
}

bool NamesParent(std::string_view name) {
  const std::string inside = "/" + std::string(name) + "/";
  return inside.find("/../") != std::string::npos;
}

Result<ClassifiedPath> ClassifyPath(std::vector<std::string> path) {
  ClassifiedPath classified;
  for (size_t i = 0; i < path.size(); ++i) {
    const std::string_view component = path[i];
    const bool last = i + 1 == path.size();
    if (!component.starts_with(kWhiteoutPrefix)) continue;
    if (component.starts_with(kBookkeepingPrefix)) {
      if (last && component == kOpaqueName) {
        path.pop_back();
        classified.kind = EntryKind::kOpaque;
        break;
      }
      classified.kind = EntryKind::kAufsBookkeeping;
      break;
    }
    const std::string_view target = component.substr(kWhiteoutPrefix.size());
    if (!last || target.empty() || target == "." || target == "..") {
      classified.kind = EntryKind::kNonsense;
      break;
    }
    path[i] = std::string(target);
    classified.kind = EntryKind::kWhiteout;
    break;
  }
  if (JoinPath(path).size() > kMaxPath) {
    return Fail(Code::kInvalidArgument,
                "its name is longer than " + std::to_string(kMaxPath) + " bytes");
  }
  classified.path = std::move(path);
  return classified;
}

std::string JoinPath(const std::vector<std::string>& path, size_t components) {
  if (components == 0) return ".";
  std::string joined = path[0];
  for (size_t i = 1; i < components; ++i) joined.append(1, '/').append(path[i]);
  return joined;
}

bool KeepsXattr(std::string_view name, std::string_view value) {
  // The mount reads user.overlay.* (option userxattr). trusted.overlay.* would be the same attack
  // on a host that mounts without that option. Honest archives may contain both, if somebody packed
  // an overlay's directory. "overlay" without a dot is the namespace's escape prefix in newer
  // kernels ("user.overlay.overlay.").
  for (const std::string_view prefix : {"user.overlay.", "trusted.overlay."}) {
    if (name.starts_with(prefix)) return false;
  }
  if (name.size() > kMaxXattrName || name.find('\0') != std::string_view::npos) return false;
  // Only revision 2 (20 bytes) is accepted. The kernel turns it into revision 3, bound to the root
  // of the user namespace. An archive's own revision 3 names a foreign root.
  if (name == "security.capability") return value.size() == 20;
  return name.starts_with("user.") && name.size() > 5;
}

size_t XattrRoom(std::string_view name, std::string_view value) {
  constexpr size_t kHead = 16;  // struct ext4_xattr_entry
  const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  return kHead + padded(name.size()) + padded(value.size());
}

}  // namespace atl::images::unpack
