// From root to the daemon's user with CAP_NET_ADMIN alone. To be done before there are threads:
// capabilities belong to a thread, and a thread that existed before would keep all of them.
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

// kPermissionDenied unless effectively root.
Status RequireRoot();
// kNotFound with the useradd line that helps; root itself is refused.
Result<User> FindUser(const std::string& name);

// Does `work` with the user's effective ids.
Status AsUser(const User& user, const std::function<Status()>& work);

// Irrevocable: uid, gid and groups, an empty bounding and inheritable set, no_new_privs, and
// CAP_NET_ADMIN permitted and effective. Verified afterwards; an error means that the process must
// end.
Status DropPrivileges(const User& user);

}  // namespace atl::daemon
