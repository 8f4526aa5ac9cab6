#include "tools/atoll/client/settings.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/login.h"

namespace atl::cli {
namespace {

constexpr size_t kMaxSmallFile = 64 << 10;

Result<std::string> KeyOf(const std::string& path, Result<std::string> key) {
  if (!key) {
    const bool denied = key.error().error_number() == EACCES;
    return Fail(std::move(key).error().Wrap(
        denied ? "the API key is for root and the daemon's user; use sudo, or set ATOLL_API_KEY"
               : "API key file"));
  }
  while (!key->empty() && (key->back() == '\n' || key->back() == ' ')) key->pop_back();
  if (key->empty()) return Fail(Code::kInvalidArgument, "API key file " + path + " is empty");
  return key;
}

// Reads the local daemon's key file. The daemon's user owns the directory, and root runs this too,
// so no link there is followed.
Result<std::string> ReadDaemonsKey(const std::string& path) {
  return KeyOf(path, ReadPlainFileAt(AT_FDCWD, path, kMaxSmallFile, {}));
}

Result<Server> FindLocalDaemon(const Settings& settings) {
  const std::string path = settings.run_dir + "/daemon.json";
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMaxSmallFile);
  if (!text) {
    if (text.error().code() != Code::kNotFound) return Fail(std::move(text).error());
    return Fail(Code::kUnavailable,
                "no daemon has been started here (" + path +
                    " does not exist); start atolld, or name a server with --server or "
                    "ATOLL_SERVER");
  }
  const auto file = JsonOrNull(*text);
  if (!file.is_object() || !file.contains("url") || !file["url"].is_string()) {
    return Fail(Code::kInternal, path + " is not what a daemon writes; restart atolld");
  }
  Server server{file["url"].get<std::string>(), ""};
  const bool own_key = !settings.api_key.empty() || !settings.api_key_file.empty();
  // A daemon with tenants lets root in by its socket, without a key.
  if (!own_key && file.contains("admin_socket") && file["admin_socket"].is_string()) {
    if (::geteuid() == 0) server.url = "unix:" + file["admin_socket"].get<std::string>();
    return server;
  }
  if (!own_key && file.contains("key_file") && file["key_file"].is_string()) {
    ATOLL_ASSIGN(server.api_key, ReadDaemonsKey(file["key_file"].get<std::string>()));
  }
  return server;
}

}  // namespace

Result<Server> FindServer(const Settings& settings) {
  Server server{settings.server, ""};
  if (server.url.empty()) {
    ATOLL_ASSIGN(server, FindLocalDaemon(settings));
  }
  if (!settings.api_key.empty()) {
    server.api_key = settings.api_key;
  } else if (!settings.api_key_file.empty()) {
    ATOLL_ASSIGN(server.api_key,
                 KeyOf(settings.api_key_file,
                       sys::ReadFileAt(AT_FDCWD, settings.api_key_file, kMaxSmallFile)));
  }
  // Nobody signs in at a socket: the daemon knows who is there.
  if (server.api_key.empty() && !server.url.starts_with("unix:")) {
    ATOLL_ASSIGN(const auto login, FreshLogin(server.url));
    if (login) server.api_key = login->token;
  }
  return server;
}

Result<std::string> FindServerUrl(const Settings& settings) {
  if (!settings.server.empty()) return settings.server;
  // A key of the user's own keeps the local daemon's out of it.
  Settings with_key = settings;
  with_key.api_key = "none";
  ATOLL_ASSIGN(Server server, FindLocalDaemon(with_key));
  return std::move(server.url);
}

}  // namespace atl::cli
