#include "images/image_name.h"

#include "images/report.h"

namespace atl::images {
namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxTag = 128;

bool IsLower(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Accepts [a-z0-9]+ with '.', '-' or '_' between: never a hidden name, "..", or an option.
bool IsPathPart(std::string_view part) {
  if (part.empty() || !IsLower(part.front()) || !IsLower(part.back())) return false;
  for (const char c : part) {
    if (!IsLower(c) && c != '.' && c != '-' && c != '_') return false;
  }
  return part.find("..") == std::string_view::npos;
}

bool IsTag(std::string_view tag) {
  if (tag.empty() || tag.size() > kMaxTag || tag.front() == '.' || tag.front() == '-') return false;
  for (const char c : tag) {
    if (!IsLower(c) && !(c >= 'A' && c <= 'Z') && c != '.' && c != '-' && c != '_') return false;
  }
  return true;
}

// Accepts "localhost" and "registry.example.org:5000".
bool IsRegistry(std::string_view part) {
  const size_t colon = part.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = part.substr(colon + 1);
    if (port.empty() || port.size() > 5 ||
        port.find_first_not_of("0123456789") != std::string_view::npos) {
      return false;
    }
  }
  return IsPathPart(part.substr(0, colon));
}

// Removes the registry and organisation that a short name implies. Repeated, so that a normalised
// name does not change again.
void StripDefaults(std::string_view& name) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view prefix : {"index.docker.io/", "docker.io/", "library/"}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      stripped = true;
    }
  }
}

}  // namespace

std::string ImageKey(const std::string& tenant, const std::string& name) {
  return tenant.empty() ? name : name + "@" + tenant;
}

Result<std::string> NormaliseImageName(std::string_view name) {
  const auto refuse = [original = name](std::string_view why) {
    return Fail(Code::kInvalidArgument,
                "image name '" + Printable(original, 100) + "': " + std::string(why));
  };
  if (name.empty()) return refuse("empty");
  if (name.size() > kMaxName) return refuse("longer than 255 bytes");
  if (name.find('@') != std::string_view::npos) {
    return refuse("digests are not supported, use REPOSITORY[:TAG]");
  }
  StripDefaults(name);
  const size_t slash = name.rfind('/');
  const size_t colon = name.find(':', slash == std::string_view::npos ? 0 : slash);
  const std::string_view tag =
      colon == std::string_view::npos ? std::string_view("latest") : name.substr(colon + 1);
  const std::string_view repository = name.substr(0, colon);
  if (!IsTag(tag)) return refuse("the tag must be 1 to 128 letters, digits, '_', '.' or '-'");
  bool first = true;
  for (std::string_view rest = repository;;) {
    const size_t end = rest.find('/');
    const std::string_view part = rest.substr(0, end);
    const bool last = end == std::string_view::npos;
    if (!(first && !last ? IsRegistry(part) : IsPathPart(part))) {
      return refuse("must be lower-case letters, digits, '.', '-', '_' and '/': REPOSITORY[:TAG]");
    }
    first = false;
    if (last) break;
    rest.remove_prefix(end + 1);
  }
  return std::string(repository).append(1, ':').append(tag);
}

}  // namespace atl::images
