#include "runtime/daemon/directories.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "runtime/base/disk_full.h"
#include "runtime/base/json_text.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/admin_socket.h"
#include "runtime/sandbox/create/access_token.h"

namespace atl::daemon {
namespace {

constexpr char kDaemonFile[] = "daemon.json";
constexpr char kKeyFile[] = "api_key";
constexpr char kRouteKeyFile[] = "route_key";

// Creates the missing parts of `path`, owned by root, 0755. Existing parts are not changed.
Status MakeParents(const std::string& path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0755) == 0) {
      // Independent of the umask.
      if (::chmod(part.c_str(), 0755) != 0) return FailSys("chmod " + part);
    } else if (errno != EEXIST) {
      return FailSys("mkdir " + part);
    }
    if (at == std::string::npos) return {};
  }
}

// The directory must be only the user's: one that others have prepared, or a link in its place, is
// refused.
Status MakePrivate(int parent, const std::string& name, const User& user) {
  ATOLL_TRY(sys::EnsureDirAt(parent, name, 0700));
  ATOLL_ASSIGN(const UniqueFd fd, sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FailSys("fstat " + name);
  if (info.st_uid != 0 && info.st_uid != user.uid) {
    return Fail(Code::kFailedPrecondition, name + " belongs to uid " + std::to_string(info.st_uid) +
                                               ", expected " + std::to_string(user.uid) +
                                               ": remove it, or set runtime.user to its owner");
  }
  if (::fchown(fd.get(), user.uid, user.gid) != 0) return FailSys("fchown " + name);
  if (::fchmod(fd.get(), 0700) != 0) return FailSys("fchmod " + name);
  return {};
}

Status MakeTop(const std::string& path, UniqueFd* fd) {
  ATOLL_TRY(MakeParents(path));
  ATOLL_ASSIGN(*fd, sys::Open(path, O_RDONLY | O_DIRECTORY));
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return FailSys("fstat " + path);
  // Whoever may rename entries here controls the daemon.
  if (info.st_uid != 0 || (info.st_mode & 0022) != 0) {
    return Fail(Code::kFailedPrecondition,
                path + " must belong to root and be writable only by root: chown root " + path +
                    " && chmod 0755 " + path);
  }
  return {};
}

// Tests the access with the user's identity, because root's access proves nothing. Parts that do
// not exist yet are created with the right mode later. Call before there are threads: the file
// system identity belongs to the thread.
Status CheckReachable(const std::string& path, const User& user) {
  std::string there = path;
  while (there.size() > 1 && ::access(there.c_str(), F_OK) != 0 && errno == ENOENT) {
    there.resize(std::max<size_t>(there.rfind('/'), 1));
  }
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  ::setfsgid(user.gid);
  ::setfsuid(user.uid);  // also drops the capabilities for files
  const bool enters = ::faccessat(AT_FDCWD, there.c_str(), X_OK, AT_EACCESS) == 0;
  ::setfsuid(0);
  ::setfsgid(0);
  if (enters) return {};
  return Fail(Code::kFailedPrecondition,
              "the daemon's user cannot enter " + there +
                  ": chmod a+x it and its parents, or choose another directory");
}

// Returns an invalid descriptor if the file does not exist and O_CREAT was not requested.
Result<UniqueFd> Lock(const std::string& path, int flags, const std::string& used) {
  auto fd = sys::Open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
  if (!fd && flags == 0 && fd.error().code() == Code::kNotFound) return UniqueFd();
  if (!fd) return fd;
  // The directory belongs to the user, so whoever has compromised the daemon may have put a FIFO
  // there.
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kFailedPrecondition, path + " is not a regular file: remove it");
  }
  if (::flock(fd->get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return FailSys("flock " + path);
  return Fail(Code::kFailedPrecondition, "another atolld uses " + used);
}

Result<Locks> TakeLocks(const Config& config, int flags) {
  Locks locks;
  ATOLL_ASSIGN(locks.data, Lock(StateDir(config) + "/lock", flags,
                                config.data_dir + ": stop it, or set storage.data_dir"));
  ATOLL_ASSIGN(locks.run, Lock(config.run_dir + "/lock", flags,
                               config.run_dir + ": stop it, or set runtime.run_dir"));
  return locks;
}

}  // namespace

std::string StateDir(const Config& config) {
  return config.data_dir + "/state";
}

std::string SocketDir(const Config& config) {
  return config.run_dir + "/sandboxes";
}

Status CheckDirectories(const Config& config, const User& user) {
  ATOLL_TRY(TakeLocks(config, 0));
  ATOLL_TRY(CheckReachable(config.data_dir, user));
  return CheckReachable(config.run_dir, user);
}

Status MakeDirectories(const Config& config, const User& user) {
  UniqueFd top;
  ATOLL_TRY(MakeTop(config.data_dir, &top));
  ATOLL_TRY(MakePrivate(top.get(), "state", user));
  ATOLL_ASSIGN(const UniqueFd state,
               sys::OpenAt(top.get(), "state", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_TRY(MakePrivate(state.get(), "images", user));
  ATOLL_TRY(MakeTop(config.run_dir, &top));
  return MakePrivate(top.get(), "sandboxes", user);
}

Status MakeAuditDirectory(const Config& config, const User& user) {
  const std::string& path = config.audit_directory;
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1);
  if (slash > 0) ATOLL_TRY(MakeParents(path.substr(0, slash)));
  ATOLL_ASSIGN(const UniqueFd parent,
               sys::Open(slash == 0 ? "/" : path.substr(0, slash), O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(MakePrivate(parent.get(), name, user));
  ATOLL_ASSIGN(const UniqueFd fd,
               sys::OpenAt(parent.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  // The set-group-id bit gives the group to the files.
  const group* const readers = ::getgrnam("adm");
  if (readers == nullptr) return {};
  if (::fchown(fd.get(), user.uid, readers->gr_gid) != 0) return FailSys("fchown " + path);
  if (::fchmod(fd.get(), 02750) != 0) return FailSys("fchmod " + path);
  return {};
}

Result<Locks> LockDirectories(const Config& config) {
  return TakeLocks(config, O_CREAT);
}

namespace {

// Returns the secret in `name` of the state directory; empty if there is none.
Result<std::string> ReadSecret(int state, const User& user, const char* name) {
  // The directory belongs to the user, so whoever has compromised the daemon may have put anything
  // there.
  const uid_t owners[] = {0, user.uid};
  auto key = ReadPlainFileAt(state, name, 4096, owners);
  if (!key && key.error().code() == Code::kNotFound) return std::string();
  if (!key) return key;
  while (!key->empty() && (key->back() == '\n' || key->back() == ' ')) key->pop_back();
  return key;
}

// Returns the secret in `name` of the state directory. The first start creates it.
Result<std::string> FindSecret(const Config& config, const User& user, const char* name) {
  ATOLL_ASSIGN(const UniqueFd state,
               sys::Open(StateDir(config), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const std::string found, ReadSecret(state.get(), user, name));
  if (!found.empty()) return found;
  std::string made = sandbox::NewAccessToken();
  // Created as the user: a later chown by name could be redirected to another file.
  ATOLL_TRY(AsUser(user, [&] { return sys::ReplaceFileAt(state.get(), name, made + "\n", 0600); }));
  return made;
}

}  // namespace

Result<UniqueFd> LockStore(const Config& config) {
  const std::string path = config.data_dir + "/store";
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, path, 0700));
  ATOLL_ASSIGN(UniqueFd store, sys::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(store.get(), LOCK_EX | LOCK_NB) == 0) return store;
  if (errno != EWOULDBLOCK) return FailSys("flock " + path);
  return Fail(Code::kFailedPrecondition,
              "a spawner uses " + path +
                  ": start atolld, and stop both and all sandboxes with 'atoll shutdown --all'");
}

Result<std::string> FindApiKey(const Config& config, const User& user) {
  if (config.insecure_no_api_key || !config.tenants_provider.empty()) return std::string();
  if (!config.api_key.empty()) return config.api_key;
  return FindSecret(config, user, kKeyFile);
}

Result<std::string> FindFormerApiKey(const Config& config, const User& user) {
  if (config.tenants_provider.empty()) return std::string();
  ATOLL_ASSIGN(const UniqueFd state,
               sys::Open(StateDir(config), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return ReadSecret(state.get(), user, kKeyFile);
}

Status ReplaceApiKey(const Config& config, const std::string& api_key) {
  ATOLL_ASSIGN(const UniqueFd state,
               sys::Open(StateDir(config), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return sys::ReplaceFileAt(state.get(), kKeyFile, api_key + "\n", 0600);
}

Result<std::string> FindRouteSecret(const Config& config, const User& user) {
  return FindSecret(config, user, kRouteKeyFile);
}

Status WriteDaemonFile(const Config& config, uint16_t port) {
  std::string host = config.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  nlohmann::json file = {{"url", "http://" + host + ":" + std::to_string(port)},
                         {"pid", ::getpid()}};
  if (!config.tenants_provider.empty()) {
    file["admin_socket"] = AdminSocketPath(config);
  } else if (!config.insecure_no_api_key && config.api_key.empty()) {
    file["key_file"] = StateDir(config) + "/" + kKeyFile;
  }
  ATOLL_ASSIGN(const UniqueFd run, sys::Open(config.run_dir, O_RDONLY | O_DIRECTORY));
  const std::string text = JsonText(file) + "\n";
  Status written = sys::ReplaceFileAt(run.get(), kDaemonFile, text, 0644);
  if (written || !IsDiskFull(written.error())) return written;
  // If the disk is full, the former file is overwritten in place, which reuses its block.
  ATOLL_ASSIGN(const UniqueFd old, sys::OpenAt(run.get(), kDaemonFile, O_WRONLY | O_NOFOLLOW));
  ATOLL_TRY(sys::WriteAll(old.get(), text));
  if (::ftruncate(old.get(), static_cast<off_t>(text.size())) != 0) {
    return FailSys("ftruncate daemon.json");
  }
  return {};
}

}  // namespace atl::daemon
