#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/buckets/object_group.h"
#include "runtime/spawner/buckets/object_mounts.h"
#include "runtime/spawner/layers/unpacker.h"
#include "runtime/spawner/sandboxes/sandboxes.h"

namespace atl::spawner {
namespace {

constexpr int kStrayPatienceMs = 5000;

// Returns a pidfd of the process that the record names, or an error if it is gone. The pid is
// opened first and looked at afterwards, so that a reused pid is not taken for it.
Result<UniqueFd> OpenRecorded(const Record& record) {
  const auto pid = static_cast<pid_t>(record.sandbox.pid);
  ATOLL_ASSIGN(UniqueFd pidfd, sys::PidfdOpen(pid));
  ATOLL_ASSIGN(const uint64_t started, sys::ProcessStartTime(pid));
  if (started != record.start_time) return Fail(Code::kNotFound, "pid was reused");
  return pidfd;
}

// Returns whether the process has ended; its parent may not have reaped it yet.
bool HasEnded(int pidfd) {
  pollfd ended{pidfd, POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

}  // namespace

Status Sandboxes::Adopt() {
  ATOLL_TRY(ends_.Load());
  ATOLL_ASSIGN(const std::vector<Record> records, ReadRecords(records_.get()));
  for (const Record& record : records) {
    const std::string id = record.sandbox.id;
    Sandbox& sandbox = sandboxes_[id];
    sandbox.record = record;
    if (record.sandbox.exited) continue;
    const auto pid = static_cast<pid_t>(record.sandbox.pid);
    auto pidfd = OpenRecorded(record);
    if (!pidfd) {
      MarkExited(sandbox, 0, false);
      continue;
    }
    HoldLink(sandbox);
    // After an upgrade by exec the process is still our child, and SIGCHLD tells its exit code.
    int status = 0;
    const pid_t waited = ::waitpid(pid, &status, WNOHANG);
    by_pid_[pid] = id;
    if (waited == pid) {
      MarkExited(sandbox, status, true);
      continue;
    }
    if (waited < 0 && HasEnded(pidfd->get())) {
      MarkExited(sandbox, 0, false);
      continue;
    }
    if (waited < 0) {
      sandbox.pidfd = std::move(*pidfd);
      ++adopted_;
      const auto on_exit = [this, id](std::optional<int>) {
        MarkExited(sandboxes_.at(id), 0, false);
        if (sandboxes_.at(id).doomed) Leave(id);
      };
      ATOLL_ASSIGN(sandbox.exit_watch, loop_.OnExit(sandbox.pidfd.get(), on_exit));
    }
  }
  LookAtAdoptedLater();
  if (!records.empty()) {
    LogLine(LogLevel::kInfo, "sandboxes adopted")
        .Add("records", static_cast<uint64_t>(records.size()));
  }
  ATOLL_ASSIGN(const std::vector<std::string> groups, host_.cgroups.Groups());
  const SlotSet known = SlotsInUse();
  // Bucket servers first: a process that waits for a bucket cannot be killed before its server has
  // ended.
  ATOLL_TRY(objects_->Adopt(known));
  std::vector<std::string> strays;
  for (const std::string& group : groups) {
    if (known.test(SlotOf(group)) || ParseObjectGroup(group) || group == kUnpackGroup) continue;
    // Leftovers of a death between clone and record, or of a slot in stock. Prepare removes the
    // group before it makes it anew.
    LogLine(LogLevel::kWarning, "stray group killed").Add("group", group);
    ATOLL_TRY(host_.cgroups.Kill(group));
    strays.push_back(group);
  }
  // Otherwise their slots could not be prepared until they have died. Waits for all at once.
  for (const std::string& group : strays) {
    ATOLL_TRY(host_.cgroups.AwaitEmpty(group, kStrayPatienceMs));
  }
  return {};
}

}  // namespace atl::spawner
