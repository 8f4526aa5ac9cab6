// Credentials for registries.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace atl::images {

// Empty: anonymous.
struct Credentials {
  std::string username;
  std::string password;

  bool empty() const { return username.empty() && password.empty(); }
};

namespace registry {

// Reads credentials from a file in the format of 'skopeo login' and docker, {"auths": {"HOST":
// {"auth": "base64"}}}. Empty if the file does not name the registry. kFailedPrecondition: users
// other than the file's owner and group may read or change it. Errors do not repeat its content.
Result<Credentials> ReadCredentials(const std::string& path, const std::string& registry);

}  // namespace registry
}  // namespace atl::images
