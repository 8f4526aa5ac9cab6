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

// The process that the record means, or an error if it is gone: the pid is opened first and looked
// at afterwards, so that a pid that was reused in between is not taken for it.
Result<UniqueFd> OpenRecorded(const Record& record) {
  const auto pid = static_cast<pid_t>(record.sandbox.pid);
  ATOLL_ASSIGN(UniqueFd pidfd, sys::PidfdOpen(pid));
  ATOLL_ASSIGN(const uint64_t started, sys::ProcessStartTime(pid));
  if (started != record.start_time) return Fail(Code::kNotFound, "pid was reused");
  return pidfd;
}

// It has ended, and whoever is its parent now has yet to reap it.
bool HasEnded(int pidfd) {
  pollfd ended{pidfd, POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

}  // namespace

Status Sandboxes::Adopt() {
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
    // After an upgrade by exec it is still our child, and SIGCHLD tells its end with the exit code.
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
  // First: a process that waits for a bucket cannot be killed before what serves that has ended.
  ATOLL_TRY(objects_->Adopt(known));
  std::vector<std::string> strays;
  for (const std::string& group : groups) {
    if (known.test(SlotOf(group)) || ParseObjectGroup(group) || group == kUnpackGroup) continue;
    // Died between clone and record, or a slot in stock. Prepare removes the group before it makes
    // it anew.
    LogLine(LogLevel::kWarning, "stray group killed").Add("group", group);
    ATOLL_TRY(host_.cgroups.Kill(group));
    strays.push_back(group);
  }
  // Else the slots could not be prepared again for as long as they take to die; all at once.
  for (const std::string& group : strays) {
    ATOLL_TRY(host_.cgroups.AwaitEmpty(group, kStrayPatienceMs));
  }
  return {};
}

}  // namespace atl::spawner
