#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {

Finding CheckUser(const HostOptions& options) {
  errno = 0;
  const passwd* user = getpwnam(options.user.c_str());
  if (user != nullptr && user->pw_uid != 0) {
    return Ok("user", options.user + " exists (uid " + std::to_string(user->pw_uid) + ")");
  }
  if (user != nullptr) {
    return Missing("user", options.user + " is root", "choose an ordinary user (runtime.user)");
  }
  return Missing(
      "user", options.user + " does not exist; the daemon drops to it",
      "run: useradd --system --no-create-home --shell /usr/sbin/nologin " + options.user);
}

Finding CheckPort(const HostOptions& options) {
  const std::string name = "port";
  const std::string where = "127.0.0.1 port " + std::to_string(options.port);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Warning(name, SysError("socket").message(), "check the limit of descriptors");
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return Ok(name, where + " is free");
  }
  if (errno != EADDRINUSE) {
    return Warning(name, SysError("bind " + where).message(), "choose another server.port");
  }
  const auto daemon = sys::ReadFileAt(AT_FDCWD, options.run_dir + "/daemon.json", 4096);
  if (daemon && daemon->find(":" + std::to_string(options.port) + "\"") != std::string::npos) {
    return Ok(name, where + " is the running daemon's");
  }
  return Warning(name, where + " is taken by another program",
                 "stop it, or choose another server.port");
}

}  // namespace atl::doctor
