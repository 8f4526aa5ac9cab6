#include "runtime/spawner/copies/copies.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/layers/unpacker.h"
#include "runtime/wire/unpack.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxCopies = 4;
// A sandbox that writes without end must not be held still without end.
constexpr int64_t kHoldPatienceUs = 30 * 1000 * 1000;

// Returns the space that a copy may take of the store's file system. A twentieth of it, at most 1
// GiB, stays for the sandboxes that run.
Result<uint64_t> Room(int store) {
  constexpr uint64_t kMostKept = 1 << 30;
  struct statfs info {};
  if (::fstatfs(store, &info) != 0) return FailSys("fstatfs store");
  const auto block = static_cast<uint64_t>(info.f_bsize);
  const uint64_t kept = std::min<uint64_t>(kMostKept, info.f_blocks / 20 * block);
  const uint64_t free = info.f_bavail * block;
  if (free > kept) return free - kept;
  return Fail(
      Error(Code::kResourceExhausted,
            "the file system of <data_dir>/store is nearly full: delete snapshots, images or "
            "sandboxes",
            ENOSPC));
}

}  // namespace

void Copies::Start(const wire::CopyUpper& wanted, Done done) {
  Run run;
  const auto pid = Begin(wanted, &run);
  if (!pid) return done(Fail(pid.error()));
  const auto watch = loop_.Watch(run.conversation.get(), EPOLLIN,
                                 [this, child = *pid](uint32_t) { OnReadable(child); });
  ATOLL_CHECK(watch.has_value());
  run.watch = *watch;
  run.done = std::move(done);
  runs_[*pid] = std::move(run);
}

Result<pid_t> Copies::Begin(const wire::CopyUpper& wanted, Run* run) {
  const uint32_t slot = sandboxes_.LiveSlot(wanted.id);
  if (slot == 0) return Fail(Code::kFailedPrecondition, "sandbox " + wanted.id + " has ended");
  if (runs_.size() >= kMaxCopies) {
    return Fail(Code::kUnavailable, "copy: too many at once");
  }
  for (const auto& [pid, other] : runs_) {
    if (other.id == wanted.id) {
      return Fail(Code::kFailedPrecondition, "sandbox " + wanted.id + " is being copied");
    }
  }
  ATOLL_ASSIGN(const uint64_t room, Room(host_.store.root()));
  const std::string upper = Store::UpperPath(slot) + "/upper";
  // The mount ends with its last descriptor, which is the child's, because an umount can wait for
  // others.
  ATOLL_ASSIGN(const UniqueFd from, CloneMount(host_.store.root(), upper.c_str(), false));
  ATOLL_TRY(SetMountAttributes(
      from.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, -1,
      false));
  ATOLL_ASSIGN(sys::SocketPair conversation, sys::UnixPair(SOCK_STREAM));
  ::fcntl(conversation.a.get(), F_SETFL, O_NONBLOCK);
  ATOLL_ASSIGN(const UniqueFd to, host_.store.CreatePartialLayer(wanted.layer));
  const std::string limit = "max_bytes=" + std::to_string(std::min(room, wanted.max_bytes));
  const auto pid = StartUnpacker(host_, {wanted.lasting ? "copy" : "fork", limit}, from.get(),
                                 to.get(), conversation.b.get());
  if (!pid) {
    [[maybe_unused]] const Status gone =
        janitor_.Discard(host_.store.root(), Store::PartialLayerPath(wanted.layer));
    return pid;
  }
  run->id = wanted.id;
  run->layer = wanted.layer;
  run->conversation = std::move(conversation.a);
  return pid;
}

void Copies::OnReadable(pid_t pid) {
  const auto found = runs_.find(pid);
  if (found == runs_.end() || !found->second.conversation) return;
  Run& run = found->second;
  char chunk[4096];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(run.conversation.get(), chunk, sizeof chunk));
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      // Only the exit status is still to come.
      loop_.Unwatch(run.watch);
      run.conversation.reset();
      break;
    }
    run.text.append(chunk, std::min(kMaxReport - run.text.size(), static_cast<size_t>(n)));
  }
  OnText(pid, run);
}

void Copies::OnText(pid_t pid, Run& run) {
  if (!run.failed) return;  // its result is dropped, and no sandbox is held for it
  if (run.stage == Stage::kStands && run.text.starts_with(wire::kCopyGoOn)) {
    run.text.erase(0, wire::kCopyGoOn.size());
    if (const Status gone_on = LetGo(run); !gone_on) return GiveUp(pid, run, gone_on);
  }
  if (run.stage == Stage::kRuns && run.stops < wire::kMostCopyStops &&
      run.text.starts_with(wire::kCopyStop)) {
    run.text.erase(0, wire::kCopyStop.size());
    run.stage = Stage::kHolding;
    ++run.stops;
    run.held_since_us = SystemClock().BootMicros();
    run.patience = loop_.After(kHoldPatienceUs, [this, pid] {
      const auto found = runs_.find(pid);
      if (found == runs_.end()) return;
      GiveUp(pid, found->second,
             Fail(Code::kDeadlineExceeded,
                  "the last changes of the sandbox could not be copied within 30 seconds"));
      [[maybe_unused]] const Status gone_on = LetGo(found->second);
    });
    sandboxes_.Hold(run.id, [this, pid](const Status& held) { OnHeld(pid, held); });
  }
}

void Copies::OnHeld(pid_t pid, const Status& held) {
  const auto found = runs_.find(pid);
  if (found == runs_.end() || found->second.stage != Stage::kHolding) return;
  Run& run = found->second;
  if (!held) {
    [[maybe_unused]] const Status gone_on = LetGo(run);
    return GiveUp(pid, run, held);
  }
  run.stage = Stage::kStands;
  if (::send(run.conversation.get(), "", 1, MSG_NOSIGNAL) != 1) {
    LogLine(LogLevel::kWarning, "a copy has ended early").Add("sandbox", run.id);
  }
}

Status Copies::LetGo(Run& run) {
  if (run.stage == Stage::kRuns) return {};
  loop_.Cancel(run.patience);
  run.stage = Stage::kRuns;
  run.held_micros += static_cast<uint64_t>(SystemClock().BootMicros() - run.held_since_us);
  return sandboxes_.LetGo(run.id);
}

void Copies::GiveUp(pid_t pid, Run& run, const Status& why) {
  if (run.failed) run.failed = why;
  ::kill(pid, SIGKILL);
}

void Copies::Abandon() {
  for (auto& [pid, run] : runs_) {
    [[maybe_unused]] const Status gone_on = LetGo(run);
    GiveUp(pid, run, Fail(Code::kUnavailable, "the daemon that asked for the copy has gone"));
  }
}

bool Copies::OnChildExit(pid_t pid, int wait_status) {
  const auto found = runs_.find(pid);
  if (found == runs_.end()) return false;
  OnReadable(pid);
  Run run = std::move(found->second);
  runs_.erase(found);
  if (run.conversation) loop_.Unwatch(run.watch);
  const bool waited = run.stops != 0 && run.stage == Stage::kRuns;
  if (const Status gone_on = LetGo(run); run.failed) run.failed = gone_on;
  auto report = UnpackerResult(wait_status, std::move(run.text));
  if (run.failed && report && !waited) {
    run.failed = Fail(Code::kInternal, "atoll-unpack has copied without waiting");
  }
  if (run.failed && !report) run.failed = Fail(std::move(report).error());
  if (run.failed) {
    run.done(wire::Copied{std::move(*report), run.held_micros});
    return true;
  }
  Status gone = janitor_.Discard(host_.store.root(), Store::PartialLayerPath(run.layer));
  if (!gone) LogLine(LogLevel::kError, "cannot discard a copy").Add(gone.error());
  run.done(Fail(run.failed.error()));
  return true;
}

}  // namespace atl::spawner
