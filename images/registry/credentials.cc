#include "images/registry/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "images/foreign_json.h"
#include "runtime/base/base64.h"
#include "runtime/base/sys.h"

namespace atl::images::registry {
namespace {

constexpr size_t kMaxFile = 1 << 20;

// Docker's files name its own registry differently than image names do.
std::vector<std::string> NamesOf(const std::string& registry) {
  if (registry != "docker.io") return {registry};
  return {registry, "index.docker.io", "https://index.docker.io/v1/"};
}

Result<Credentials> Decode(const std::string& path, const nlohmann::json& entry) {
  const auto auth = entry.is_object() ? entry.find("auth") : entry.end();
  const auto text = entry.is_object() && auth != entry.end() && auth->is_string()
                        ? DecodeBase64(auth->get_ref<const std::string&>())
                        : std::nullopt;
  const size_t colon = text ? text->find(':') : std::string::npos;
  if (colon == std::string::npos) {
    return Fail(Code::kInvalidArgument,
                path +
                    ": an entry has no \"auth\", the base64 of USER:PASSWORD; write it with "
                    "'skopeo login --authfile'");
  }
  return Credentials{text->substr(0, colon), text->substr(colon + 1)};
}

}  // namespace

Result<Credentials> ReadCredentials(const std::string& path, const std::string& registry) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 027) != 0) {
    return Fail(Code::kFailedPrecondition, path +
                                               " contains passwords, but other users may read or "
                                               "change it: chmod 600, as the daemon's user");
  }
  ATOLL_ASSIGN(const std::string bytes, sys::ReadAll(file.get(), kMaxFile));
  // The parser's error would quote the file.
  const auto root = ParseForeignObject(bytes, path);
  const auto auths = root ? root->find("auths") : nlohmann::json::const_iterator();
  if (!root || auths == root->end() || !auths->is_object()) {
    return Fail(Code::kInvalidArgument, path + ": not {\"auths\": {\"HOST\": …}}");
  }
  for (const std::string& name : NamesOf(registry)) {
    const auto entry = auths->find(name);
    if (entry != auths->end()) return Decode(path, *entry);
  }
  return Credentials{};
}

}  // namespace atl::images::registry
