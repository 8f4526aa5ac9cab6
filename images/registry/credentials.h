// Who we are to registries.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace atl::images {

// Empty: nobody.
struct Credentials {
  std::string username;
  std::string password;

  bool empty() const { return username.empty() && password.empty(); }
};

namespace registry {

// From a file as 'skopeo login' and docker write it, {"auths": {"HOST": {"auth": "base64"}}};
// nobody if it does not name the registry. kFailedPrecondition: users of the host may read or
// change it who are neither its owner nor of its group. What is in it is in no error.
Result<Credentials> ReadCredentials(const std::string& path, const std::string& registry);

}  // namespace registry
}  // namespace atl::images
