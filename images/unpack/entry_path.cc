#include "images/unpack/entry_path.h"

#include <utility>

namespace atl::images::unpack {
namespace {

constexpr std::string_view kWhiteoutPrefix = ".wh.";
constexpr std::string_view kBookkeepingPrefix = ".wh..wh.";
constexpr std::string_view kOpaqueName = ".wh..wh..opq";

constexpr size_t kMaxXattrName = 255;    // XATTR_NAME_MAX
constexpr size_t kMaxXattrValue = 4096;  // ext4 keeps an inode's attributes in one block

}  // namespace

Result<std::vector<std::string>> ParseEntryPath(std::string_view name) {
  if (name.empty()) return Fail(Code::kInvalidArgument, "its name is empty");
  if (name.size() > kMaxPath) {
    return Fail(Code::kInvalidArgument,
                "its name is longer than " + std::to_string(kMaxPath) + " bytes");
  }
  if (name.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "its name holds a zero byte");
  }
  std::vector<std::string> path;
  while (!name.empty()) {
    const size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    name.remove_prefix(slash == std::string_view::npos ? name.size() : slash + 1);
    if (component.empty() || component == ".") continue;
    if (component == "..") return Fail(Code::kInvalidArgument, "'..' in its name");
    if (component.size() > kMaxComponent) {
      return Fail(Code::kInvalidArgument,
                  "a part of its name is longer than " + std::to_string(kMaxComponent) + " bytes");
    }
    if (path.size() == kMaxDepth) {
      return Fail(Code::kInvalidArgument,
                  "it is nested deeper than " + std::to_string(kMaxDepth) + " directories");
    }
    path.emplace_back(component);
  }
  return path;
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
    if (!last) return Fail(Code::kInvalidArgument, "a whiteout (.wh.) is used as a directory");
    const std::string_view target = component.substr(kWhiteoutPrefix.size());
    if (target.empty() || target == "." || target == "..") {
      return Fail(Code::kInvalidArgument, "a whiteout (.wh.) of nothing, '.' or '..'");
    }
    path[i] = std::string(target);
    classified.kind = EntryKind::kWhiteout;
    break;
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

XattrRule RuleForXattr(std::string_view name, std::string_view value) {
  // The mount reads user.overlay.* (option userxattr); trusted.overlay.* is what the same attack
  // would use on a host that mounts without it. "overlay" without a dot is the namespace's escape
  // prefix in newer kernels ("user.overlay.overlay.").
  for (const std::string_view prefix : {"user.overlay.", "trusted.overlay."}) {
    if (name.starts_with(prefix)) return XattrRule::kRefuse;
  }
  if (name.empty() || name.size() > kMaxXattrName || value.size() > kMaxXattrValue ||
      name.find('\0') != std::string_view::npos) {
    return XattrRule::kRefuse;
  }
  if (name == "security.capability") {
    // Revision 2 (20 bytes): the kernel turns it into revision 3, bound to the user namespace's
    // root. A revision 3 that names a root of its own is somebody else's.
    return value.size() == 20 ? XattrRule::kKeep : XattrRule::kDrop;
  }
  if (name.starts_with("user.") && name.size() > 5) return XattrRule::kKeep;
  return XattrRule::kDrop;
}

}  // namespace atl::images::unpack
