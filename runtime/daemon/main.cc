// atolld: the daemon of Atoll. Started as root; serves as its own user.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/base/cleanup.h"
#include "runtime/base/core_dump.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/log.h"
#include "runtime/base/program.h"
#include "runtime/base/standard_streams.h"
#include "runtime/daemon/admin_socket.h"
#include "runtime/daemon/backup.h"
#include "runtime/daemon/certificate.h"
#include "runtime/daemon/command_line.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/config_text.h"
#include "runtime/daemon/config_values.h"
#include "runtime/daemon/daemon.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/listener.h"
#include "runtime/daemon/privileges.h"
#include "runtime/daemon/spawner_process.h"
#include "runtime/daemon/storage_init.h"
#include "runtime/daemon/tenants_setup.h"
#include "runtime/http/tls_memory.h"

namespace atl::daemon {
namespace {

void PrepareProcess() {
  ::umask(0077);
  ::signal(SIGPIPE, SIG_IGN);
  // Blocked before there are threads, so that no thread receives these signals.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  // Each proxied stream uses two descriptors.
  if (auto reserved = ReserveDescriptors(); !reserved) {
    LogLine(LogLevel::kWarning, "cannot reserve descriptors for answering").Add(reserved.error());
  }
  if (const rlim_t low = LowDescriptorLimit(); low != 0) {
    LogLine(
        LogLevel::kWarning,
        "the limit of open files is low: sandboxes and streams are refused early, and snapshots, "
        "forks and differences of deep trees fail; raise LimitNOFILE, or ulimit -Hn of the shell")
        .Add("limit", low)
        .Add("enough", kEnoughDescriptors);
  }
}

Result<std::vector<netpolicy::PolicyRule>> RulesFor(const std::vector<std::string>& targets,
                                                    netpolicy::Action action) {
  std::vector<netpolicy::PolicyRule> rules;
  for (const std::string& target : targets) {
    ATOLL_ASSIGN(netpolicy::PolicyTarget parsed, netpolicy::ParsePolicyTarget(target));
    rules.push_back({action, target, std::move(parsed), {}, netpolicy::Transport::kAny});
  }
  return rules;
}

// Finds the authorities that interceptors verify servers with: OpenSSL's variable, or Debian's
// file, because a confined interceptor cannot search a directory later.
std::string FindAuthorities() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are threads.
  const char* named = std::getenv("SSL_CERT_FILE");
  return named != nullptr ? named : "/etc/ssl/certs/ca-certificates.crt";
}

Status Serve(const Config& config, Sources sources) {
  Daemon::Opened opened;
  ATOLL_TRY(RequireRoot());
  ATOLL_ASSIGN(const User user, FindUser(config.user));
  ATOLL_ASSIGN(opened.tls, LoadCertificate(config));
  opened.authorities = FindAuthorities();
  ATOLL_ASSIGN(Listener listener, BindListener(config.host, config.port, "--server-port", "api"));
  opened.listener = std::move(listener.socket);
  opened.port = listener.port;
  if (!config.metrics_listen.empty()) {
    const auto [host, port] = PartsOfListen(config.metrics_listen);
    ATOLL_ASSIGN(listener, BindListener(host, port, "--metrics-listen", "metrics"));
    opened.metrics_listener = std::move(listener.socket);
  }
  ATOLL_TRY(CheckDirectories(config, user));
  ATOLL_TRY(MakeDirectories(config, user));
  if (KeepsAudit(config)) ATOLL_TRY(MakeAuditDirectory(config, user));
  ATOLL_ASSIGN(const Locks locks, LockDirectories(config));
  if (!config.tenants_provider.empty()) {
    ATOLL_ASSIGN(opened.admin_listener, BindAdminSocket(config));
  }
  ATOLL_ASSIGN(opened.api_key, FindApiKey(config, user));
  ATOLL_ASSIGN(opened.former_api_key, FindFormerApiKey(config, user));
  ATOLL_ASSIGN(opened.route_secret, FindRouteSecret(config, user));
  ATOLL_ASSIGN(FoundSpawner spawner, ConnectOrStartSpawner(config));
  // A spawner that was there before, or has sandboxes, is not stopped.
  auto stop_started = Cleanup([&config, ours = spawner.started && spawner.hello.sandboxes.empty()] {
    if (ours) StopStartedSpawner(config);
  });
  opened.spawner = std::move(spawner.client);
  opened.hello = std::move(spawner.hello);
  // A spawner that was started here stays a child until the daemon exits, and must not become a
  // zombie.
  ::signal(SIGCHLD, SIG_IGN);
  netpolicy::NetworkConfig network;
  network.instance = opened.hello.instance;
  network.dns_upstreams = config.dns;
  ATOLL_ASSIGN(network.private_networks, netpolicy::ParsePrefixes(config.private_networks));
  ATOLL_ASSIGN(network.rules.deny_always, RulesFor(config.deny_always, netpolicy::Action::kDeny));
  ATOLL_ASSIGN(network.rules.allow_always,
               RulesFor(config.allow_always, netpolicy::Action::kAllow));
  network.deny_unless_asked = config.deny_unless_asked;
  network.allow_unnamed = config.allow_unnamed;
  network.max_connections = config.max_connections;
  ATOLL_ASSIGN(opened.network, netpolicy::Network::Open(network));
  ATOLL_TRY(WriteDaemonFile(config, opened.port));
  ATOLL_TRY(DropPrivileges(user));
  WarnIfUnreadable(config);
  opened.sources = std::move(sources);
  ATOLL_ASSIGN(const std::unique_ptr<Daemon> daemon, Daemon::Create(config, std::move(opened)));
  stop_started.Release();
  ATOLL_TRY(daemon->Run());
  // Skips destructors, which would wait for the work of the pool (an import, a slow disk), and
  // thereby delay the next daemon. The state is safe against SIGKILL, so nothing is lost.
  std::_Exit(0);
}

int Report(const char* what, const Status& status) {
  if (status) return 0;
  LogLine(LogLevel::kError, what).Add(status.error());
  return 1;
}

// Only returns with an error.
Status BecomeSpawner(const Config& config, const CommandLine& line) {
  ATOLL_TRY(RequireRoot());
  ATOLL_ASSIGN(const User user, FindUser(config.user));
  if (!line.spawner_trial) ATOLL_TRY(MakeDirectories(config, user));
  return ExecSpawner(config, line.spawner_cgroup, line.spawner_trial);
}

int Main(int argc, char** argv) {
  int exit_code = 0;
  auto line = ParseCommandLine(argc, argv, &exit_code);
  if (!line) return exit_code;
  InitLog("atolld", LogLevel::kInfo);
  // The configuration may already contain the API key.
  Status prepared = ForbidCoreDumps();
  if (prepared) prepared = http::WipeTlsMemory();
  if (!prepared) return Report("cannot start", prepared);
  if (line->action == CommandLine::Action::kInitConfig) {
    return Report("cannot write", WriteExampleConfig(line->example_path, line->force));
  }
  auto loaded = LoadConfig(line->sources);
  if (!loaded) return Report("configuration", Fail(std::move(loaded).error()));
  for (const std::string& warning : loaded->warnings) LogLine(LogLevel::kWarning, warning);
  const Config& config = loaded->config;
  if (line->action == CommandLine::Action::kCheckConfig) {
    if (auto checked = CheckCertificate(config); !checked) return Report("configuration", checked);
    if (auto checked = CheckTenantsFile(config); !checked) return Report("configuration", checked);
    // A reload runs this check, and the journal would get the whole configuration each time.
    if (!IsJournal(STDOUT_FILENO)) std::fputs(EffectiveConfig(config).c_str(), stdout);
    return 0;
  }
  if (line->action == CommandLine::Action::kStorageInit) {
    return Report("storage init", InitStorage(config, line->store_size));
  }
  if (line->action == CommandLine::Action::kRestore) {
    return Report("restore", RestoreBackup(config, line->backup));
  }
  SetLogLevel(config.log_level);
  SetLogFormat(config.log_format);
  if (line->action == CommandLine::Action::kSpawner) {
    return Report("cannot become the spawner", BecomeSpawner(config, *line));
  }
  PrepareProcess();
  return Report("cannot serve", Serve(config, std::move(line->sources)));
}

}  // namespace
}  // namespace atl::daemon

int main(int argc, char** argv) {
  atl::OpenStandardStreams();
  return atl::daemon::Main(argc, argv);
}
