// The daemon's directories and files, made while it is root:
//
//   <data_dir>            root 0755   also has the images' layers and the spawner's upper
//   directories <data_dir>/state      user 0700   atoll.db, api_key, lock <data_dir>/state/images
//   images.db, uploads <run_dir>             root 0755   spawner.sock, daemon.json, lock
//   <run_dir>/sandboxes   user 0700   one socket for each sandbox
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/privileges.h"

namespace atl::daemon {

// The keys of tenants and of the host, in the state directory.
inline constexpr char kKeyStoreFile[] = "keys.db";

std::string StateDir(const Config& config);
std::string SocketDir(const Config& config);

// Call before anything is created. kFailedPrecondition: another daemon uses one of the two
// directories, or `user` could not reach what will be created there.
Status CheckDirectories(const Config& config, const User& user);

// Creates audit.directory for the user; the group adm may read it.
Status MakeAuditDirectory(const Config& config, const User& user);
Status MakeDirectories(const Config& config, const User& user);

// Locks that are held for the life of the process, because two daemons must not share either
// directory. kFailedPrecondition: another daemon runs.
struct Locks {
  UniqueFd data;
  UniqueFd run;
};
Result<Locks> LockDirectories(const Config& config);

// Locks the store against spawners, which outlive daemons (spawner::Store::Open), as long as the
// descriptor is open. kFailedPrecondition: a spawner uses the store.
Result<UniqueFd> LockStore(const Config& config);

// Returns the configured key, or that of <state>/api_key, which is created if absent (owned by
// `user`, 0600). Empty: no key is required, or the daemon has tenants.
Result<std::string> FindApiKey(const Config& config, const User& user);
// Returns the key of <state>/api_key on a daemon with tenants: the key that it had before. Tokens
// of sandboxes that were told by then still follow from it. It opens nothing else. Empty: none is
// known, or the daemon has no tenants.
Result<std::string> FindFormerApiKey(const Config& config, const User& user);
// Replaces the generated key by a configured one, so that the old key does not come back when the
// configuration has none again. Until the next start, root's command line tool reads the key from
// this file. Call as the daemon's user.
Status ReplaceApiKey(const Config& config, const std::string& api_key);
// Returns the secret that signs routes if the configuration has no signing key: that of
// <state>/route_key, created like the API key.
Result<std::string> FindRouteSecret(const Config& config, const User& user);

// Writes daemon.json for the command line tool: where the daemon listens, and which file holds its
// key. Contains no secret.
Status WriteDaemonFile(const Config& config, uint16_t port);

}  // namespace atl::daemon
