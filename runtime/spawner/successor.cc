#include "runtime/spawner/successor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
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
#include "runtime/spawner/execute.h"

namespace atl::spawner {
namespace {

constexpr const char* kSuccessorVariable = "ATOLL_SPAWNER_SUCCESSOR";
constexpr int kReadyFd = 3;
constexpr int kFirstPauseMs = 100;
constexpr int kLongestPauseMs = 10 * 1000;
// One that has lived shorter than this is not started again without a pause.
constexpr int64_t kShortLifeUs = 1000 * 1000;

// True if nothing is left to do: it serves, or another one does.
bool StartSpawner(const Config& config) {
  auto ready = sys::MakePipe();
  const pid_t pid = ready ? ::fork() : -1;
  if (pid < 0) {
    LogLine(LogLevel::kError, "cannot start the spawner again").Add(SysError("fork"));
    return false;
  }
  if (pid == 0) {
    std::vector<std::string> arguments = config.arguments;
    arguments.insert(arguments.end(),
                     {"--ready-fd", std::to_string(kReadyFd), "--successor", "yes"});
    Execute(config.program, arguments, ready->write.get());
  }
  ready->write.reset();
  char byte;
  if (TEMP_FAILURE_RETRY(::read(ready->read.get(), &byte, 1)) == 1) return true;
  int status = 0;
  [[maybe_unused]] const auto reaped = TEMP_FAILURE_RETRY(::waitpid(pid, &status, 0));
  return WIFEXITED(status) && WEXITSTATUS(status) == kServedByAnother;
}

[[noreturn]] void Wait(const Config& config, int host_mounts, int spawner) {
  ::prctl(PR_SET_NAME, "atoll-successor");
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const Status outside = ToHostMounts(host_mounts); !outside) {
    LogLine(LogLevel::kError, "no successor of the spawner").Add(outside.error());
    ::_exit(1);
  }
  // Among what is open here are the spawner's listener, connection and gates.
  ::dup2(spawner, kReadyFd);
  ::close_range(kReadyFd + 1, ~0u, 0);
  const int64_t began_us = SystemClock().BootMicros();
  pollfd dead{kReadyFd, POLLIN, 0};
  [[maybe_unused]] const auto died = TEMP_FAILURE_RETRY(::poll(&dead, 1, -1));
  ::close(kReadyFd);
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
  // Ours, opened before the fork: the number of a spawner that dies meanwhile may be another's.
  ATOLL_ASSIGN(const UniqueFd spawner, sys::PidfdOpen(::getpid()));
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork successor");
  if (pid == 0) Wait(config, host_mounts, spawner.get());
  return Successor(pid);
}

std::optional<Successor> Successor::HandedOver() {
  const char* value = ::getenv(kSuccessorVariable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  ::unsetenv(kSuccessorVariable);
  // Only a child that lives.
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
  int status;
  [[maybe_unused]] const auto reaped = TEMP_FAILURE_RETRY(::waitpid(pid_, &status, 0));
}

}  // namespace atl::spawner
