#include "runtime/spawner/buckets/object_group.h"

#include <charconv>

#include "runtime/spawner/rules/config.h"
#include "runtime/wire/volume.h"

namespace atl::spawner {

std::string ObjectGroup(const ObjectKey& key) {
  return "m" + std::to_string(key.first) + "-" + std::to_string(key.second);
}

std::optional<ObjectKey> ParseObjectGroup(const std::string& name) {
  const size_t dash = name.find('-');
  if (!name.starts_with('m') || dash == std::string::npos) return std::nullopt;
  ObjectKey key{0, 0};
  std::from_chars(name.data() + 1, name.data() + dash, key.first);
  std::from_chars(name.data() + dash + 1, name.data() + name.size(), key.second);
  // Accepts only the form that ObjectGroup writes.
  if (ObjectGroup(key) != name || key.first == 0 || key.first > kMaxSlot ||
      key.second >= wire::kMaxVolumes) {
    return std::nullopt;
  }
  return key;
}

}  // namespace atl::spawner
