#include "tools/atoll/client/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/base/utc_time.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {
namespace {

constexpr int kRenewEverySeconds = Guard::kLease / 3;
// Retries once a second, because the daemon may be restarting.
constexpr int kDeleteTries = 60;

time_t Now() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return now.tv_sec;
}

// Returns false after that time, true if the pipe has data or has ended.
bool Wait(int pipe, int milliseconds) {
  pollfd wanted{pipe, POLLIN, 0};
  return poll(&wanted, 1, milliseconds) > 0;
}

// Opens a new connection for each call: a restarted daemon may have another address.
Status Call(const Settings& settings, const std::string& method, const std::string& path,
            const std::string& body) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_TRY(api.Send(method, path, body));
  return {};
}

void Watch(const Settings& settings, const std::string& sandbox_id, int seconds, int pipe) {
  const std::string path = "/sandboxes/" + PercentEncode(sandbox_id);
  const time_t end = Now() + seconds;
  while (!Wait(pipe, kRenewEverySeconds * 1000)) {
    const auto left = static_cast<int>(std::min<time_t>(Guard::kLease, end - Now()));
    if (left <= 0) continue;
    // A failure is ignored, because the next renewal comes before the deadline.
    [[maybe_unused]] const auto ignored = Call(settings, "POST", path + "/renew-expiration",
                                               R"({"expiresAt":")" + TimeIn(left) + "\"}");
  }
  char released = 0;
  if (read(pipe, &released, 1) == 1) return;
  for (int i = 0; i < kDeleteTries; ++i) {
    const auto deleted = Call(settings, "DELETE", path, {});
    if (deleted || deleted.error().code() == Code::kNotFound) return;
    poll(nullptr, 0, 1000);
  }
}

// Runs in the child. Closes inherited descriptors, because our caller may wait for their end.
// Leaves the terminal's session, so that its signals do not arrive.
void Detach(int* pipe) {
  constexpr int kPipe = STDERR_FILENO + 1;
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::array<DescriptorMove, 4> moves{{{null, 0}, {null, 1}, {null, 2}, {*pipe, kPipe}}};
  if (!MoveDescriptors(moves)) _exit(1);
  *pipe = kPipe;
  close_range(kPipe + 1, ~0U, 0);
  prctl(PR_SET_NAME, "atoll-guard");
}

}  // namespace

Result<Guard> Guard::Start(const Settings& settings, const std::string& sandbox_id, int seconds) {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  const pid_t pid = fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return Guard(std::move(pipe.write));
  int end = pipe.read.release();
  Detach(&end);
  Watch(settings, sandbox_id, seconds, end);
  _exit(0);
}

void Guard::Release() {
  [[maybe_unused]] const auto ignored = sys::WriteAll(pipe_.get(), "r");
}

std::string TimeIn(int seconds) {
  return std::string(UtcTime(Now() + seconds, 0, 0).text());
}

}  // namespace atl::cli
