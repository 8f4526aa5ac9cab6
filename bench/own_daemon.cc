#include "bench/own_daemon.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/clock.h"
#include "bench/host_view.h"
#include "bench/process.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr int64_t kPatienceUs = 20'000'000;
constexpr size_t kFileLimit = 1 << 20;

bool HasEnded(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

bool IsThere(pid_t pid) {
  siginfo_t info{};
  // A child that has ended stays a zombie until somebody reaps it, so kill(2) alone is not enough.
  return ::kill(pid, 0) == 0 &&
         (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0);
}

void AwaitEnd(pid_t pid) {
  const int64_t deadline = NowMicros() + kPatienceUs;
  while (IsThere(pid) && NowMicros() < deadline) Rest(20);
}

// Requires a tmpfs, as an installed daemon has it. Not every host has one at /run.
Result<std::string> MakeRunDirectory() {
  struct statfs info {};
  const bool has_tmpfs = ::statfs("/run", &info) == 0 && info.f_type == TMPFS_MAGIC;
  std::string name = std::string(has_tmpfs ? "/run" : "/dev/shm") + "/atoll-bench.XXXXXX";
  if (!::mkdtemp(name.data())) return FailSys("mkdtemp " + name);
  return name;
}

}  // namespace

Result<std::unique_ptr<OwnDaemon>> OwnDaemon::Start(const std::string& program,
                                                    const std::vector<std::string>& options) {
  std::unique_ptr<OwnDaemon> daemon(new OwnDaemon());
  ATOLL_TRY(daemon->Begin(program, options));
  return daemon;
}

Status OwnDaemon::Begin(const std::string& program, const std::vector<std::string>& options) {
  char name[] = "/var/tmp/atoll-bench.XXXXXX";
  if (!::mkdtemp(name)) return FailSys("mkdtemp /var/tmp");
  top_ = name;
  ATOLL_ASSIGN(run_dir_, MakeRunDirectory());
  const char* run = run_dir_.c_str();
  // The daemon's user and the sandboxes' ids need to pass through the directory.
  if (::chmod(name, 0755) != 0 || ::chmod(run, 0755) != 0) return FailSys("chmod " + top_);
  ATOLL_ASSIGN(const UniqueFd log,
               sys::Open(top_ + "/atolld.log", O_WRONLY | O_CREAT | O_APPEND, 0644));
  // A session of its own keeps ^C from the daemon. The measurement gets the signal and ends the
  // daemon in order.
  std::vector<std::string> argv = {"setsid",
                                   program,
                                   "--server-port",
                                   "0",
                                   "--storage-data-dir",
                                   data_dir(),
                                   "--runtime-run-dir",
                                   run_dir_};
  argv.insert(argv.end(), options.begin(), options.end());
  ATOLL_ASSIGN(pid_, Spawn(argv, log.get(), log.get()));
  ATOLL_TRY(AwaitAnswer());
  ATOLL_TRY(FindSpawner());
  return Guard();
}

Status OwnDaemon::AwaitAnswer() {
  const int64_t deadline = NowMicros() + kPatienceUs;
  while (NowMicros() < deadline && !HasEnded(pid_)) {
    auto text = sys::ReadFileAt(AT_FDCWD, run_dir_ + "/daemon.json", kFileLimit);
    const auto told = nlohmann::json::parse(text ? *text : "", nullptr, false);
    if (!told.is_object()) {
      Rest(20);
      continue;
    }
    const std::string url = told.value("url", "");
    const char* digits = url.data() + url.rfind(':') + 1;
    std::from_chars(digits, url.data() + url.size(), port_);
    ATOLL_ASSIGN(key_, sys::ReadFileAt(AT_FDCWD, told.value("key_file", ""), kFileLimit));
    while (!key_.empty() && key_.back() == '\n') key_.pop_back();
    ATOLL_ASSIGN(SandboxApi api, Connect());
    return api.AwaitQuiet();
  }
  std::string logs;
  for (const std::string& name : {top_ + "/atolld.log", run_dir_ + "/spawner.log"}) {
    auto log = sys::ReadFileAt(AT_FDCWD, name, kFileLimit);
    if (log) logs += *log;
  }
  return Fail(Code::kUnavailable, "atolld does not answer; its log:\n" + logs);
}

Status OwnDaemon::FindSpawner() {
  ATOLL_ASSIGN(spawner_, ProcessesNamed("atoll-spawner", run_dir_));
  if (spawner_.empty())
    return Fail(Code::kInternal, "no atoll-spawner with run directory " + run_dir_);
  return {};
}

// Forks a process that waits for the end of this one. Without it, an interrupted measurement would
// leave a thousand sandboxes behind.
Status OwnDaemon::Guard() {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) {
    alive_ = std::move(pipe.write);
    guard_ = pid;
    return {};
  }
  ::setsid();
  pipe.write.reset();
  char byte = 0;
  // A byte means that everything has been ended already. End of file means that nothing has.
  if (TEMP_FAILURE_RETRY(::read(pipe.read.get(), &byte, 1)) == 0) End();
  ::_exit(0);
}

void OwnDaemon::End() const {
  if (pid_ > 0 && IsThere(pid_)) {
    Status stopped = Fail(Code::kUnavailable, "it does not answer");
    auto api = Connect();
    if (api) stopped = api->Shutdown();
    if (!stopped) {
      std::fprintf(stderr, "bench: stopping atolld: %s\n", stopped.error().message().c_str());
      ::kill(pid_, SIGKILL);
    }
  }
  // The janitor is still removing what the sandboxes left.
  for (const pid_t pid : spawner_) AwaitEnd(pid);
  for (const std::string& directory : {top_, run_dir_}) {
    const size_t slash = directory.rfind('/');
    if (slash == std::string::npos) continue;
    auto parent = sys::Open(directory.substr(0, slash), O_RDONLY | O_DIRECTORY);
    if (!parent) continue;
    const Status removed = sys::RemoveTree(parent->get(), directory.substr(slash + 1));
    if (!removed) std::fprintf(stderr, "bench: %s\n", removed.error().message().c_str());
  }
}

OwnDaemon::~OwnDaemon() {
  End();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  if (guard_ <= 0) return;
  [[maybe_unused]] const Status told = sys::WriteAll(alive_.get(), ".");
  ::waitpid(guard_, nullptr, 0);
}

}  // namespace atl::bench
