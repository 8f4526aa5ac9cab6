// The sign-ins of 'atoll login', one for each server, in $XDG_CONFIG_HOME/atoll/login.json, else
// ~/.config/atoll/login.json, which only the user can read. A sign-in is sent to no other server.
//
// Processes that renew a sign-in take turns, because providers end a sign-in whose refresh token is
// used twice.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/sign_in.h"

namespace atl::cli {

// Returns the sign-in for the server, as it is kept; nothing if there is none.
// kFailedPrecondition: the file is not the user's own, or others can read it.
Result<std::optional<SignIn>> KeptLogin(const std::string& server);
// Like KeptLogin, with a token that counts. Renews and keeps it if the former one expires.
Result<std::optional<SignIn>> FreshLogin(const std::string& server);
// Keeps the sign-in in place of any other for that server.
Status KeepLogin(const std::string& server, const SignIn& sign_in);
Status DropLogin(const std::string& server);

}  // namespace atl::cli
