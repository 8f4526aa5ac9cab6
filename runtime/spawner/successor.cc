#include "runtime/spawner/successor.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/execute.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

constexpr const char* kSuccessorVariable = "ATOLL_SPAWNER_SUCCESSOR";
constexpr int kReadyFd = 3;
constexpr int kDismissPatienceMs = 5000;
constexpr int kFirstPauseMs = 100;
constexpr int kLongestPauseMs = 10 * 1000;
// A spawner that lived shorter than this is started again only after a pause.
constexpr int64_t kShortLifeUs = 1000 * 1000;

// Returns true if nothing is left to do: this spawner serves, or another one does.
bool StartSpawner(const Config& config) {
  auto ready = sys::MakePipe();
  auto pid = ready ? StartWorker({.name = "atoll-spawner", .outlives = true}, {ready->write.get()},
                                 [&] {
                                   std::vector<std::string> arguments = config.arguments;
                                   arguments.insert(arguments.end(),
                                                    {"--ready-fd", std::to_string(kReadyFd),
                                                     "--successor", "yes"});
                                   Execute(config.program, arguments, ready->write.get());
                                 })
                   : Result<pid_t>(Fail(ready.error()));
  if (!pid) {
    LogLine(LogLevel::kError, "cannot start the spawner again").Add(pid.error());
    return false;
  }
  ready->write.reset();
  char byte;
  if (TEMP_FAILURE_RETRY(::read(ready->read.get(), &byte, 1)) == 1) return true;
  int status = 0;
  [[maybe_unused]] const auto reaped = TEMP_FAILURE_RETRY(::waitpid(*pid, &status, 0));
  return WIFEXITED(status) && WEXITSTATUS(status) == kServedByAnother;
}

[[noreturn]] void Wait(const Config& config, int host_mounts, int spawner) {
  if (const Status outside = ToHostMounts(host_mounts); !outside) {
    LogLine(LogLevel::kError, "no successor of the spawner").Add(outside.error());
    ::_exit(1);
  }
  const int64_t began_us = SystemClock().BootMicros();
  pollfd dead{spawner, POLLIN, 0};
  [[maybe_unused]] const auto died = TEMP_FAILURE_RETRY(::poll(&dead, 1, -1));
  LogLine(LogLevel::kError, "the spawner has died, starting it again");
  int pause_ms = SystemClock().BootMicros() - began_us < kShortLifeUs ? kFirstPauseMs : 0;
  for (;;) {
    ::poll(nullptr, 0, pause_ms);
    if (StartSpawner(config)) ::_exit(0);
    pause_ms = std::clamp(pause_ms * 2, kFirstPauseMs, kLongestPauseMs);
  }
}

}  // namespace

Result<Successor> Successor::Start(const Config& config, int host_mounts) {
  // Opened before the fork, because the number of a spawner that dies meanwhile may be another
  // process's.
  ATOLL_ASSIGN(const UniqueFd spawner, sys::PidfdOpen(::getpid()));
  ATOLL_ASSIGN(const pid_t pid, StartWorker({.name = "atoll-successor", .outlives = true},
                                            {host_mounts, spawner.get()},
                                            [&] { Wait(config, host_mounts, spawner.get()); }));
  return Successor(pid);
}

std::optional<Successor> Successor::HandedOver() {
  const char* value = ::getenv(kSuccessorVariable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  ::unsetenv(kSuccessorVariable);
  // Only a living child.
  int status;
  if (pid <= 0 || ::waitpid(pid, &status, WNOHANG) != 0) return std::nullopt;
  return Successor(pid);
}

Status Successor::HandOver() const {
  if (::setenv(kSuccessorVariable, std::to_string(pid_).c_str(), 1) != 0) return FailSys("setenv");
  return {};
}

void Successor::Dismiss() const {
  ::kill(pid_, SIGKILL);
  if (!AwaitEnd(pid_, kDismissPatienceMs)) {
    LogLine(LogLevel::kWarning, "the successor was killed and has not ended").Add("pid", pid_);
  }
}

}  // namespace atl::spawner
