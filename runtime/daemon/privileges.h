// Drops from root to the daemon's user with only CAP_NET_ADMIN. Must be called before there are
// threads: capabilities belong to a thread, and an earlier thread would keep all of them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "runtime/base/result.h"

namespace atl::daemon {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
};

// kPermissionDenied: the effective user is not root.
Status RequireRoot();
// kNotFound: no such user; the message has the useradd command. Root itself is refused.
Result<User> FindUser(const std::string& name);

// Runs `work` with the user's effective ids.
Status AsUser(const User& user, const std::function<Status()>& work);

// Drops privileges irrevocably: uid, gid and groups, empty bounding and inheritable sets,
// no_new_privs, and only CAP_NET_ADMIN permitted and effective. The result is verified. If it
// fails, the process must exit.
Status DropPrivileges(const User& user);

}  // namespace atl::daemon
