#include "runtime/daemon/spawner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/program.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/cdi.h"

namespace atl::daemon {
namespace {

constexpr char kProgram[] = "atoll-spawner";
// Adopting a thousand sandboxes takes a while.
constexpr int kReadyTimeoutMs = 30000;
constexpr int64_t kRetryUs = 200 * 1000;
// The spawner's exit status if another spawner already serves.
constexpr int kServedByAnother = 3;
// Number of the descriptor in the spawner; 0 to 2 are the standard streams.
constexpr int kReadyFd = 3;

// Returns an empty text if this host is to have no virtual machines. `atoll vm prepare` on a host
// is the wish to have some.
std::string VmDirectory(const Config& config) {
  if (!config.vm_dir.empty()) return config.vm_dir;
  const std::string usual = config.data_dir + "/vm";
  return ::access(usual.c_str(), F_OK) == 0 ? usual : "";
}

Result<std::vector<std::string>> SpawnerArguments(const Config& config) {
  std::vector<std::string> arguments = {kProgram,       "--data-dir", config.data_dir, "--run-dir",
                                        config.run_dir, "--user",     config.user};
  for (const std::string& path : config.allowed_host_paths) {
    arguments.insert(arguments.end(), {"--host-path", path});
  }
  if (config.swap_bytes != 0) {
    arguments.insert(arguments.end(), {"--swap-size", std::to_string(config.swap_bytes),
                                       "--swap-kind", config.swap_kind});
  }
  if (config.log_format == LogFormat::kJson) {
    arguments.insert(arguments.end(), {"--log-format", "json"});
  }
  for (const std::string& store : config.object_stores) {
    arguments.insert(arguments.end(), {"--object-store", store});
  }
  if (!config.runsc.empty()) arguments.insert(arguments.end(), {"--runsc", config.runsc});
  if (const std::string directory = VmDirectory(config); !directory.empty()) {
    arguments.insert(arguments.end(), {"--vm-dir", directory, "--vm-accel", config.vm_accel});
    if (config.vm_allow_emulation) arguments.insert(arguments.end(), {"--vm-emulation", "yes"});
  }
  if (config.gpu_kind.empty()) return arguments;
  auto devices = ReadCdi(config.gpu_spec_dirs, config.gpu_kind);
  if (!devices) return Fail(std::move(devices).error().Wrap("gpu.kind " + config.gpu_kind));
  if (devices->empty()) {
    LogLine(LogLevel::kWarning,
            "no file of gpu.spec_dirs describes a device of gpu.kind: sandboxes have no GPUs "
            "('atoll doctor' says more)")
        .Add("kind", config.gpu_kind);
  }
  for (const wire::Device& device : *devices) {
    arguments.insert(arguments.end(), {"--device", wire::DeviceLine(device)});
  }
  return arguments;
}

// Returns the last line of its log, which is most likely the reason of a failure.
std::string LastLine(const std::string& path) {
  constexpr off_t kTail = 1024;
  auto fd = sys::Open(path, O_RDONLY | O_NOFOLLOW);
  if (!fd) return "(cannot be read)";
  const off_t end = ::lseek(fd->get(), 0, SEEK_END);
  ::lseek(fd->get(), std::max<off_t>(0, end - kTail), SEEK_SET);
  auto tail = sys::ReadAll(fd->get(), 1 << 20);
  if (!tail) return "(cannot be read)";
  while (tail->ends_with('\n')) tail->pop_back();
  return tail->substr(tail->rfind('\n') + 1);
}

// One byte means ready. The end of the pipe without a byte means that the spawner has exited.
Status AwaitReady(int ready, const std::string& log) {
  pollfd wait{ready, POLLIN, 0};
  const auto n = TEMP_FAILURE_RETRY(::poll(&wait, 1, kReadyTimeoutMs));
  if (n < 0) return FailSys("poll");
  if (n == 0) {
    return Fail(Code::kDeadlineExceeded, "the spawner was not ready within " +
                                             std::to_string(kReadyTimeoutMs / 1000) + " s; see " +
                                             log);
  }
  char byte = 0;
  if (TEMP_FAILURE_RETRY(::read(ready, &byte, 1)) == 1) return {};
  return Fail(Code::kUnavailable, "the spawner exited before it was ready; its log (" + log +
                                      ") ends: " + LastLine(log));
}

// kAlreadyExists: another spawner serves, though it may not answer yet.
Status StartSpawner(const Config& config) {
  ATOLL_ASSIGN(const std::string program, FindProgram(kProgram));
  const std::string log_path = config.run_dir + "/spawner.log";
  ATOLL_ASSIGN(const UniqueFd log,
               sys::Open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640));
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  ATOLL_ASSIGN(std::vector<std::string> arguments, SpawnerArguments(config));
  arguments.insert(arguments.end(), {"--respawn", "yes", "--ready-fd", std::to_string(kReadyFd)});
  ATOLL_ASSIGN(const pid_t pid,
               Spawn({program,
                      std::move(arguments),
                      {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
                      {{log.get(), 1}, {log.get(), 2}, {pipe.write.get(), kReadyFd}}}));
  pipe.write.reset();
  if (auto ready = AwaitReady(pipe.read.get(), log_path); !ready) {
    // The spawner is stopped unless it has reported that it is ready.
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kServedByAnother) {
      return Fail(Code::kAlreadyExists, ready.error().message());
    }
    return ready;
  }
  LogLine(LogLevel::kInfo, "started the spawner").Add("pid", pid).Add("log", log_path);
  return {};
}

// A spawner that is upgrading itself, or has just started, does not answer for some 20 ms.
Result<std::unique_ptr<launch::SpawnerClient>> AwaitSpawner(const std::string& run_dir,
                                                            wire::Greeting* hello) {
  const int64_t deadline_us = SystemClock().BootMicros() + kRetryUs;
  for (;;) {
    auto client = launch::SpawnerClient::Connect(run_dir, hello);
    if (client || client.error().code() == Code::kDeadlineExceeded ||
        SystemClock().BootMicros() > deadline_us) {
      return client;
    }
    // No event tells when it listens.
    ::poll(nullptr, 0, 10);
  }
}

bool IsAbsent(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kUnavailable;
}

}  // namespace

Result<FoundSpawner> ConnectOrStartSpawner(const Config& config) {
  FoundSpawner found;
  const int64_t deadline_us = SystemClock().BootMicros() + kReadyTimeoutMs * int64_t{1000};
  auto client = launch::SpawnerClient::Connect(config.run_dir, &found.hello);
  while (!client && IsAbsent(client.error())) {
    if (!config.start_spawner) {
      return Fail(Code::kUnavailable,
                  "no spawner answers in " + config.run_dir +
                      ", and runtime.start_spawner is off: systemctl start atoll-spawner");
    }
    const Status started = StartSpawner(config);
    const bool another = !started && started.error().code() == Code::kAlreadyExists;
    if (!started && (!another || SystemClock().BootMicros() > deadline_us)) {
      return Fail(started.error());
    }
    found.started = started.has_value();
    client = AwaitSpawner(config.run_dir, &found.hello);
  }
  if (!client) return Fail(std::move(client).error().Wrap("connect to the spawner"));
  found.client = std::move(*client);
  return found;
}

void StopStartedSpawner(const Config& config) {
  const Status stopped = launch::SpawnerClient::StopNow(config.run_dir);
  if (!stopped) {
    LogLine(LogLevel::kWarning,
            "cannot stop the spawner that this start has started; it keeps running")
        .Add(stopped.error());
  }
}

Status ExecSpawner(const Config& config, const std::string& cgroup, bool trial) {
  ATOLL_ASSIGN(const std::string program, FindProgram(kProgram));
  ATOLL_ASSIGN(std::vector<std::string> arguments, SpawnerArguments(config));
  if (!cgroup.empty()) arguments.insert(arguments.end(), {"--cgroup", cgroup});
  if (trial) arguments.insert(arguments.end(), {"--trial", "yes"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return FailSys("execv " + program);
}

}  // namespace atl::daemon
