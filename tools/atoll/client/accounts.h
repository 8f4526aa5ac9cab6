// Resolves user names with the sandbox's own passwd and group files.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/command.h"

namespace atl::cli {

// Parses USER[:GROUP]; each is a number or a name in the sandbox's files. Without GROUP the
// sandbox's passwd gives the group.
Result<UserIds> FindUser(Api& api, const std::string& sandbox_id, const std::string& given);

}  // namespace atl::cli
