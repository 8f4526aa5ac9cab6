#include "tools/atoll/client/login.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/json_text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxLogins = 1 << 20;
constexpr char kLogins[] = "login.json";
constexpr char kLoginLock[] = "login.lock";
constexpr mode_t kOwnFile = 0600;
constexpr mode_t kOwnDirectory = 0700;
// A token that expires within this time is renewed, so that it does not expire on its way.
constexpr int64_t kRenewAheadSeconds = 10;

// The members of a kept sign-in.
constexpr std::pair<const char*, std::string SignIn::*> kSignInTexts[] = {
    {"issuer", &SignIn::issuer},
    {"client_id", &SignIn::client_id},
    {"scope", &SignIn::scope},
    {"audience", &SignIn::audience},
    {"token_endpoint", &SignIn::token_endpoint},
    {"revocation_endpoint", &SignIn::revocation_endpoint},
    {"token", &SignIn::token},
    {"refresh_token", &SignIn::refresh_token}};

// Returns the directory of the user's settings; empty if the user has no home.
std::string ConfigDirectory() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') return config;
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.config" : "";
}

// Opens the directory of the file, and makes it if `make`. kNotFound: it is not there.
Result<UniqueFd> OpenLoginDirectory(bool make) {
  const std::string config = ConfigDirectory();
  if (config.empty()) {
    return Fail(Code::kNotFound, "there is no home directory: set HOME or XDG_CONFIG_HOME");
  }
  if (make) {
    ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, config, kOwnDirectory));
    ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, config + "/atoll", kOwnDirectory));
  }
  return sys::Open(config + "/atoll", O_RDONLY | O_DIRECTORY);
}

// Returns all sign-ins by server; an empty object if there is no file.
Result<json> ReadLogins(int directory) {
  auto file = sys::OpenAt(directory, kLogins, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (!file) {
    if (file.error().code() == Code::kNotFound) return json::object();
    return Fail(std::move(file).error().Wrap("read the sign-ins of 'atoll login'"));
  }
  const std::string path = ConfigDirectory() + "/atoll/" + kLogins;
  struct stat info {};
  if (::fstat(file->get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Fail(Code::kFailedPrecondition,
                path +
                    " is not a file of yours that only you can read: remove it, and run 'atoll "
                    "login' again");
  }
  ATOLL_ASSIGN(const std::string text, sys::ReadAll(file->get(), kMaxLogins));
  json logins = JsonOrNull(text);
  if (logins.is_object()) return logins;
  return Fail(Code::kFailedPrecondition,
              path + " is damaged: remove it, and run 'atoll login' again");
}

std::optional<SignIn> LoginOf(const json& logins, const std::string& server) {
  const auto found = logins.find(server);
  if (found == logins.end() || !found->is_object()) return std::nullopt;
  SignIn sign_in;
  for (const auto& [name, text] : kSignInTexts) sign_in.*text = TextOf(*found, name);
  const auto expires = found->find("expires_s");
  if (expires != found->end() && expires->is_number_integer()) {
    sign_in.expires_s = expires->get<int64_t>();
  }
  return sign_in;
}

// Holds the file against other processes as long as it lives.
Result<UniqueFd> LockLogins(int directory) {
  ATOLL_ASSIGN(UniqueFd lock,
               sys::OpenAt(directory, kLoginLock, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return FailSys("flock login.lock");
  }
  return lock;
}

// Replaces the sign-in for the server; null: removes it. The caller holds the lock.
Status ReplaceLogin(int directory, json logins, const std::string& server, const SignIn* sign_in) {
  logins.erase(server);
  if (sign_in != nullptr) {
    json& one = logins[server];
    for (const auto& [name, text] : kSignInTexts) {
      if (!(sign_in->*text).empty()) one[name] = sign_in->*text;
    }
    one["expires_s"] = sign_in->expires_s;
  }
  return sys::ReplaceFileAt(directory, kLogins, PrettyJson(logins) + "\n", kOwnFile);
}

bool Lasts(const SignIn& sign_in) {
  return sign_in.expires_s - kRenewAheadSeconds > UnixMillis() / 1000;
}

}  // namespace

Result<std::optional<SignIn>> KeptLogin(const std::string& server) {
  const auto directory = OpenLoginDirectory(false);
  if (!directory) {
    if (directory.error().code() == Code::kNotFound) return std::nullopt;
    return Fail(directory.error());
  }
  ATOLL_ASSIGN(const json logins, ReadLogins(directory->get()));
  return LoginOf(logins, server);
}

Result<std::optional<SignIn>> FreshLogin(const std::string& server) {
  ATOLL_ASSIGN(std::optional<SignIn> kept, KeptLogin(server));
  if (!kept || Lasts(*kept)) return kept;
  ATOLL_ASSIGN(const UniqueFd directory, OpenLoginDirectory(false));
  ATOLL_ASSIGN(const UniqueFd lock, LockLogins(directory.get()));
  // Another process may have renewed it meanwhile, or ended it.
  ATOLL_ASSIGN(json logins, ReadLogins(directory.get()));
  kept = LoginOf(logins, server);
  if (!kept || Lasts(*kept)) return kept;
  if (kept->refresh_token.empty()) {
    return Fail(Code::kPermissionDenied,
                "your sign-in at " + kept->issuer + " has expired; run 'atoll login'");
  }
  ATOLL_TRY(Renew(&*kept));
  ATOLL_TRY(ReplaceLogin(directory.get(), std::move(logins), server, &*kept));
  return kept;
}

Status KeepLogin(const std::string& server, const SignIn& sign_in) {
  ATOLL_ASSIGN(const UniqueFd directory, OpenLoginDirectory(true));
  ATOLL_ASSIGN(const UniqueFd lock, LockLogins(directory.get()));
  ATOLL_ASSIGN(json logins, ReadLogins(directory.get()));
  return ReplaceLogin(directory.get(), std::move(logins), server, &sign_in);
}

Status DropLogin(const std::string& server) {
  ATOLL_ASSIGN(const UniqueFd directory, OpenLoginDirectory(false));
  ATOLL_ASSIGN(const UniqueFd lock, LockLogins(directory.get()));
  ATOLL_ASSIGN(json logins, ReadLogins(directory.get()));
  return ReplaceLogin(directory.get(), std::move(logins), server, nullptr);
}

}  // namespace atl::cli
