// The daemon's places on disk, made while it is root.
//
//   <data_dir>            root 0755   images' layers and uppers of the spawner's are below it too
//   <data_dir>/state      user 0700   atoll.db, api_key, lock
//   <data_dir>/state/images           images.db, uploads
//   <run_dir>             root 0755   spawner.sock, daemon.json, lock
//   <run_dir>/sandboxes   user 0700   one socket for each sandbox
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/privileges.h"

namespace atl::daemon {

std::string StateDir(const Config& config);
std::string SocketDir(const Config& config);

// Before anything is made: kFailedPrecondition if another daemon uses one of the two directories,
// or if `user` would not be let through to what is made there.
Status CheckDirectories(const Config& config, const User& user);

Status MakeDirectories(const Config& config, const User& user);

// Held for the life of the process: two daemons never share either directory. kFailedPrecondition
// if another one runs.
struct Locks {
  UniqueFd data;
  UniqueFd run;
};
Result<Locks> LockDirectories(const Config& config);

// Held for as long as no spawner may use the store, which outlives daemons (spawner::Store::Open).
// kFailedPrecondition: one uses it.
Result<UniqueFd> LockStore(const Config& config);

// The configured key, else that of <state>/api_key, which is made if absent (owned by `user`,
// 0600). Empty: none is wanted.
Result<std::string> FindApiKey(const Config& config, const User& user);
// Puts a configured key in place of the one that was made, which must not come back when the
// configuration has none again. Root's command line tool reads it there until the next start. As
// the daemon's user.
Status ReplaceApiKey(const Config& config, const std::string& api_key);
// What routes are signed with if the configuration names no key: that of <state>/route_key,
// likewise.
Result<std::string> FindRouteSecret(const Config& config, const User& user);

// For the command line tool: where the daemon listens and which file holds its key; no secret.
Status WriteDaemonFile(const Config& config, uint16_t port);

}  // namespace atl::daemon
