// Users as a sandbox's own files name them.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/command.h"

namespace atl::cli {

// USER[:GROUP], each a number or a name that the sandbox knows. Without GROUP the sandbox's passwd
// says it.
Result<UserIds> FindUser(Api& api, const std::string& sandbox_id, const std::string& given);

}  // namespace atl::cli
