// Reads how a sandbox ended.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/exit.h"

namespace atl::cli {

// Extension of sandboxes of `run -d --rm`: the verb that ends the sandbox, or waits for its end,
// then removes it. The server removes it a minute after its end (state/expiry.cc).
inline constexpr char kRemoveAtEnd[] = "atoll.rm";

// Deletes the sandbox if it has ended and has kRemoveAtEnd. A missing sandbox is no error.
Status RemoveIfAsked(Api& api, const std::string& sandbox_id);

// Returns the exit code of the entrypoint, from the server's JSON; nothing if it did not exit: the
// sandbox runs, was deleted or has expired.
std::optional<int> ExitCodeIn(const nlohmann::json& sandbox);
// Returns how a sandbox ended, from the server's JSON; nothing while it runs.
std::optional<Exit> EndIn(const nlohmann::json& sandbox);
// Fetches the sandbox, then the same. kNotFound: it is gone.
Result<std::optional<Exit>> EndOf(Api& api, const std::string& sandbox_id);
// The same for a sandbox that existed a moment ago: the error says that it went away.
Result<std::optional<Exit>> EndOfSeen(Api& api, const std::string& sandbox_id);

}  // namespace atl::cli
