// The end of a sandbox.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/exit.h"

namespace atl::cli {

// The extension of a sandbox that is removed by who ends it or waits for its end (run -d --rm). To
// the server it means nothing.
inline constexpr char kRemoveAtEnd[] = "atoll.rm";

// Deletes a sandbox that has ended and was made with it. One that is gone is no error.
Status RemoveIfAsked(Api& api, const std::string& sandbox_id);

// How a sandbox ended, as the server shows it; nothing while it runs.
std::optional<Exit> EndIn(const nlohmann::json& sandbox);
// The same of one that is asked for. kNotFound: it is gone.
Result<std::optional<Exit>> EndOf(Api& api, const std::string& sandbox_id);
// The same of one that was there a moment ago: the error says that it went away.
Result<std::optional<Exit>> EndOfSeen(Api& api, const std::string& sandbox_id);

}  // namespace atl::cli
