// atolld: the daemon of Atoll. Started as root; serves as its own user.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/daemon.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/listener.h"
#include "runtime/daemon/privileges.h"
#include "runtime/daemon/spawner_process.h"

namespace atl::daemon {
namespace {

// The configuration: file, then flags. Warnings are left for when the log works.
Result<Loaded> Configure(const std::string& path, bool path_given,
                         const std::deque<std::vector<std::string>>& flags) {
  ATOLL_ASSIGN(Loaded loaded, LoadConfig(path, path_given));
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].empty()) continue;
    const Key& key = Keys()[i];
    if (auto set = key.set(flags[i], &loaded.config); !set) {
      return Fail(std::move(set).error().Wrap(FlagOf(key)));
    }
  }
  ATOLL_TRY(CheckConfig(loaded.config));
  return loaded;
}

void PrepareProcess() {
  ::umask(0077);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  // Before there are threads, so that none of them takes these.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  // Each proxied stream is two descriptors.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

Status Serve(const Config& config) {
  Daemon::Opened opened;
  ATOLL_TRY(RequireRoot());
  ATOLL_ASSIGN(const User user, FindUser(config.user));
  ATOLL_ASSIGN(Listener listener, BindListener(config));
  opened.listener = std::move(listener.socket);
  opened.port = listener.port;
  ATOLL_TRY(MakeDirectories(config, user));
  ATOLL_ASSIGN(const UniqueFd lock, LockState(config));
  ATOLL_ASSIGN(opened.api_key, FindApiKey(config, user));
  ATOLL_ASSIGN(opened.route_secret, FindRouteSecret(config, user));
  ATOLL_ASSIGN(opened.spawner, ConnectOrStartSpawner(config, &opened.hello));
  // A spawner that we have started is our child until we end: it must not stay a zombie.
  ::signal(SIGCHLD, SIG_IGN);
  netpolicy::NetworkConfig network;
  network.instance = opened.hello.instance;
  network.dns_upstreams = config.dns;
  ATOLL_ASSIGN(opened.network, netpolicy::Network::Open(network));
  ATOLL_TRY(WriteDaemonFile(config, opened.port));
  ATOLL_TRY(DropPrivileges(user));
  ATOLL_ASSIGN(const std::unique_ptr<Daemon> daemon, Daemon::Create(config, std::move(opened)));
  return daemon->Run();
}

int Main(int argc, char** argv) {
  CLI::App app("Atoll's daemon: runs sandboxes and serves the OpenSandbox API.");
  std::string path = kDefaultConfigPath;
  const CLI::Option* path_option = app.add_option("--config", path, "configuration file (TOML)")
                                       ->capture_default_str()
                                       ->take_last();
  std::deque<std::vector<std::string>> flags(Keys().size());
  bool insecure = false;
  for (size_t i = 0; i < Keys().size(); ++i) {
    const Key& key = Keys()[i];
    CLI::Option* option = app.add_option(FlagOf(key), flags[i], key.help)->group(key.section);
    // Of a flag that is given twice the last one counts, as wrappers expect.
    if (key.kind != Key::Kind::kList) option->expected(1)->take_last();
  }
  app.add_flag("--insecure-no-api-key", insecure, "same as --server-insecure-no-api-key true");
  CLI11_PARSE(app, argc, argv);
  if (insecure) {
    for (size_t i = 0; i < Keys().size(); ++i) {
      if (FlagOf(Keys()[i]) == "--server-insecure-no-api-key") flags[i] = {"true"};
    }
  }
  InitLog("atolld", LogLevel::kInfo);
  auto loaded = Configure(path, path_option->count() > 0, flags);
  if (!loaded) {
    LogLine(LogLevel::kError, "configuration").Add(loaded.error());
    return 1;
  }
  InitLog("atolld", loaded->config.log_level);
  for (const std::string& warning : loaded->warnings) LogLine(LogLevel::kWarning, warning);
  PrepareProcess();
  if (auto served = Serve(loaded->config); !served) {
    LogLine(LogLevel::kError, "cannot serve").Add(served.error());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace atl::daemon

int main(int argc, char** argv) {
  return atl::daemon::Main(argc, argv);
}
