#include "runtime/spawner/memory/paused_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/execute.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/memory/fetch_back.h"
#include "runtime/spawner/memory/page_out.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {
namespace {

// A hostile sandbox takes seconds, and another must not wait for that.
constexpr size_t kMostAtOnce = 2;
constexpr size_t kMostWaiting = 4096;  // maximum number of sandboxes
constexpr int64_t kTryLaterUs = 5 * 1000 * 1000;
constexpr int64_t kTurnOffPatienceUs = 10 * 1000 * 1000;
constexpr size_t kResultLimit = 4096;

std::string MiB(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

void Turn(const SwapPlace& place, bool on, int result, int host_mounts) {
  // Otherwise /proc/swaps would show the host a path in our own mount namespace.
  Status turned = ToHostMounts(host_mounts);
  if (turned) turned = on ? TurnSwapOn(place) : TurnSwapOff(place);
  const wire::Reply reply{0, wire::AnswerOf<void>(turned)};
  [[maybe_unused]] const Status told = sys::WriteAll(result, wire::EncodePacket(reply).bytes);
}

// Parses what the process that turns the area on or off has reported.
Status TurnedOf(const std::string& bytes) {
  auto reply = wire::DecodeReply(bytes);
  if (!reply) return Fail(Code::kInternal, "the process that makes the swap area died");
  return wire::ResultOf<void>(std::move(reply->answer));
}

}  // namespace

PausedMemory::PausedMemory(const Host& host, EventLoop& loop, Sandboxes& sandboxes)
    : host_(host), loop_(loop), sandboxes_(sandboxes) {}

SwapPlace PausedMemory::Place() const {
  return {.data_dir = host_.config.data_dir,
          .run_dir = host_.config.run_dir,
          .instance = host_.instance,
          .bytes = host_.config.swap_bytes,
          .kind = host_.config.swap_kind};
}

void PausedMemory::Start() {
  const auto use = ReadSwapUse(host_.config.run_dir);
  if (use && use->on) area_ = Area::kOn;
  // Nobody has ever turned an area on here.
  if (area_ == Area::kOff && !WasSwapTurned(host_.config.run_dir)) return;
  // Sandboxes that stand still keep what is in swap; that of the others is fetched.
  for (const wire::SandboxRecord& record : sandboxes_.List()) {
    const std::string group = SlotGroup(record.slot);
    if (record.exited) continue;
    if (Status restored = host_.cgroups.RestoreSwap(group); !restored) {
      LogLine(LogLevel::kWarning, "cannot restore a limit of swap").Add(restored.error());
    }
    if (area_ != Area::kOn) continue;
    const auto files = host_.cgroups.OpenPaging(group);
    if (!files) continue;
    const auto paging = cgroup::ReadPaging(files->stat.get(), files->swap.get());
    if (paging && paging->swapped_bytes == 0) continue;
    out_.insert(record.id);
    if (!host_.cgroups.FreezeAsked(group).value_or(false)) to_fetch_.push_back(record.id);
  }
  // Also when it is off: a killed process may have left half of it.
  if (area_ == Area::kOff) return TurnLater(Area::kTurningOff);
  Advance();
}

void PausedMemory::Reclaim(const std::string& id, Done done) {
  for (auto& [pid, run] : runs_) {
    if (run.id != id || run.fetches || run.stopped) continue;
    // Another daemon has asked before.
    if (const Done before = std::exchange(run.done, std::move(done))) {
      before(Fail(Code::kFailedPrecondition, "replaced by a later request"));
    }
    return;
  }
  if (host_.config.swap_bytes == 0) {
    return done(Fail(Code::kUnimplemented, "there is no swap area (pause.swap_size)"));
  }
  if (sandboxes_.LiveSlot(id) == 0) return done(Fail(Code::kNotFound, "no sandbox " + id));
  if (waiting_.size() >= kMostWaiting) {
    return done(Fail(Code::kResourceExhausted, "too many wait for the swap area"));
  }
  waiting_.push_back({id, std::move(done)});
  Advance();
}

const PausedMemory::Run* PausedMemory::RunOf(const std::string& id) const {
  const auto found = std::find_if(runs_.begin(), runs_.end(),
                                  [&](const auto& entry) { return entry.second.id == id; });
  return found == runs_.end() ? nullptr : &found->second;
}

void PausedMemory::Advance() {
  if (area_ == Area::kTurningOn || area_ == Area::kTurningOff) return;
  if (area_ == Area::kOff) {
    if (!waiting_.empty()) TurnLater(Area::kTurningOn);
    return;
  }
  const auto paging_out = [this] {
    return static_cast<size_t>(std::count_if(
        runs_.begin(), runs_.end(), [](const auto& entry) { return !entry.second.fetches; }));
  };
  while (!to_fetch_.empty() && runs_.size() - paging_out() < kMostAtOnce) {
    const std::string id = std::move(to_fetch_.front());
    to_fetch_.pop_front();
    BeginFetch(id);
  }
  // A sandbox that is still being fetched, because it was resumed a moment ago, has to wait.
  const auto use = waiting_.empty() ? SwapUse{.on = true} : ReadSwapUse(host_.config.run_dir);
  // Somebody on the host, or an earlier spawner of ours, has taken the area down.
  if (use && !use->on) return TurnLater(Area::kTurningOn);
  while (paging_out() < kMostAtOnce) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                   [this](const Waiting& one) { return RunOf(one.id) == nullptr; });
    if (next == waiting_.end()) break;
    Waiting waiting = std::move(*next);
    waiting_.erase(next);
    Begin(std::move(waiting));
  }
  if (out_.empty() && waiting_.empty() && runs_.empty() && !try_later_) {
    TurnLater(Area::kTurningOff);
  }
}

void PausedMemory::Begin(Waiting waiting) {
  Run run;
  const auto pid = TryBegin(waiting.id, &run);
  if (!pid) return waiting.done(Fail(pid.error()));
  run.done = std::move(waiting.done);
  runs_[*pid] = std::move(run);
}

Result<pid_t> PausedMemory::TryBegin(const std::string& id, Run* run) {
  run->id = id;
  run->slot = sandboxes_.LiveSlot(id);
  const std::string group = SlotGroup(run->slot);
  if (run->slot == 0) return Fail(Code::kNotFound, "no sandbox " + id);
  ATOLL_ASSIGN(const bool still, host_.cgroups.Frozen(group));
  ATOLL_ASSIGN(const bool asked, host_.cgroups.FreezeAsked(group));
  if (!still || !asked) return Fail(Code::kFailedPrecondition, "sandbox " + id + " runs");
  ATOLL_ASSIGN(const cgroup::PagingFiles files, host_.cgroups.OpenPaging(group));
  ATOLL_ASSIGN(const cgroup::Paging paging, cgroup::ReadPaging(files.stat.get(), files.swap.get()));
  run->bytes = paging.resident_bytes - paging.both_bytes;
  ATOLL_ASSIGN(const SwapUse use, ReadSwapUse(host_.config.run_dir));
  if (!use.on) return Fail(Code::kResourceExhausted, "the swap area was taken down");
  uint64_t taken = use.used_bytes;
  for (const auto& [pid, other] : runs_) taken += other.bytes;
  if (taken + run->bytes > use.bytes) {
    return Fail(Code::kResourceExhausted, "it needs " + MiB(run->bytes) +
                                              " of the swap area, which has " +
                                              MiB(use.bytes - std::min(taken, use.bytes)) + " of " +
                                              MiB(use.bytes) + " left (pause.swap_size)");
  }
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  // Recorded first, because the sandbox may have pages in swap from now on.
  out_.insert(id);
  if (Status allowed = host_.cgroups.AllowSwap(group); !allowed) {
    [[maybe_unused]] const Status restored = host_.cgroups.RestoreSwap(group);
    return Fail(std::move(allowed).error());
  }
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  auto pid = StartPageOut(files, pipe.write.get());
  if (!pid) [[maybe_unused]]
    const Status restored = host_.cgroups.RestoreSwap(group);
  run->result = std::move(pipe.read);
  return pid;
}

void PausedMemory::Stop(const std::string& id) {
  std::erase(to_fetch_, id);
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& one) { return one.id == id; });
  if (waits != waiting_.end()) {
    const Done done = std::move(waits->done);
    waiting_.erase(waits);
    done(Fail(Code::kFailedPrecondition, "sandbox " + id + " goes on"));
  }
  for (auto& [pid, run] : runs_) {
    if (run.id != id) continue;
    run.stopped = true;
    ::kill(pid, SIGKILL);
    if (run.fetches) continue;
    // Before the process has ended, so that what it is doing goes no further.
    if (Status restored = host_.cgroups.RestoreSwap(SlotGroup(run.slot)); !restored) {
      LogLine(LogLevel::kWarning, "cannot restore a limit of swap").Add(restored.error());
    }
  }
}

void PausedMemory::Fetch(const std::string& id) {
  if (!out_.contains(id)) return;
  to_fetch_.push_back(id);
  // Answers the daemon, which waits for the sandbox, first.
  loop_.After(0, [this] { Advance(); });
}

void PausedMemory::BeginFetch(const std::string& id) {
  const auto alive = sandboxes_.Living(id);
  // The sandbox ends, and is forgotten then.
  if (!alive) return;
  const auto pid = StartFetchBack(host_.cgroups, SlotGroup(alive->slot), alive->pid);
  if (!pid) {
    LogLine(LogLevel::kWarning, "cannot fetch memory back from swap")
        .Add("sandbox", id)
        .Add(pid.error());
    out_.erase(id);
    return;
  }
  Run& run = runs_[*pid];
  run.id = id;
  run.slot = alive->slot;
  run.fetches = true;
}

void PausedMemory::Forget(const std::string& id) {
  std::erase(to_fetch_, id);
  if (out_.erase(id) != 0) Advance();
}

bool PausedMemory::Busy(uint32_t slot) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [slot](const auto& entry) { return entry.second.slot == slot && slot != 0; });
}

void PausedMemory::TurnLater(Area to) {
  area_ = to;
  auto pipe = sys::MakePipe();
  if (!pipe) return AreaTurned(Fail(pipe.error()));
  const bool on = to == Area::kTurningOn;
  const int result = pipe->write.get();
  // The process that makes the area outlives a killed spawner, and the next spawner waits for its
  // lock. Otherwise a device that the kernel is about to make would appear after the look for
  // leftovers.
  const auto pid = StartWorker({.name = "atoll-swap", .outlives = on}, {result, host_.host_mounts},
                               [&] { Turn(Place(), on, result, host_.host_mounts); });
  if (!pid) return AreaTurned(Fail(pid.error()));
  ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  runs_[*pid].result = std::move(pipe->read);
}

void PausedMemory::AreaTurned(const Status& status) {
  const bool wanted_on = area_ == Area::kTurningOn;
  if (off_) return wanted_on ? TurnLater(Area::kTurningOff) : std::exchange(off_, nullptr)(status);
  if (status) {
    area_ = wanted_on ? Area::kOn : Area::kOff;
    return Advance();
  }
  LogLine(LogLevel::kError, wanted_on ? "no swap area: paused sandboxes keep their memory"
                                      : "the swap area cannot be taken down yet")
      .Add(status.error());
  if (wanted_on) {
    // Never kUnavailable: that would mean the spawner, and the daemon would ask another one.
    const Error why(Code::kResourceExhausted, status.error().message(),
                    status.error().error_number());
    for (const Waiting& one : std::exchange(waiting_, {})) one.done(Fail(why));
    // The process that made it may have died half way.
    return TurnLater(Area::kTurningOff);
  }
  const auto use = ReadSwapUse(host_.config.run_dir);
  area_ = use && use->on ? Area::kOn : Area::kOff;
  try_later_ = true;
  loop_.After(kTryLaterUs, [this] {
    try_later_ = false;
    // The area is not on, and something of it may be left.
    if (area_ == Area::kOff && waiting_.empty()) return TurnLater(Area::kTurningOff);
    Advance();
  });
  Advance();
}

void PausedMemory::Abandon() {
  for (const Waiting& one : std::exchange(waiting_, {})) {
    one.done(Fail(Code::kUnavailable, "the spawner is stopping"));
  }
  to_fetch_.clear();
  for (auto& [pid, run] : runs_) {
    if (run.id.empty()) continue;
    run.stopped = true;
    ::kill(pid, SIGKILL);
    if (run.fetches) continue;
    [[maybe_unused]] const Status restored = host_.cgroups.RestoreSwap(SlotGroup(run.slot));
  }
}

void PausedMemory::TurnOff(std::function<void(Status)> done) {
  off_ = std::move(done);
  loop_.After(kTurnOffPatienceUs, [this] {
    if (!off_) return;
    std::exchange(off_, nullptr)(
        Fail(Code::kDeadlineExceeded, "the swap area could not be taken down within 10 seconds"));
  });
  if (area_ != Area::kTurningOn && area_ != Area::kTurningOff) TurnLater(Area::kTurningOff);
}

bool PausedMemory::OnChildExit(pid_t pid) {
  auto found = runs_.extract(pid);
  if (!found) return false;
  const Run run = std::move(found.mapped());
  const auto bytes = run.result ? sys::ReadAll(run.result.get(), kResultLimit)
                                : Result<std::string>(std::string());
  if (run.id.empty()) {
    AreaTurned(TurnedOf(bytes.value_or("")));
    return true;
  }
  if (run.fetches) {
    // A sandbox that has been paused again meanwhile has a page-out that waits for this.
    if (!run.stopped) out_.erase(run.id);
    Advance();
    return true;
  }
  if (!run.stopped) {
    if (Status restored = host_.cgroups.RestoreSwap(SlotGroup(run.slot)); !restored) {
      LogLine(LogLevel::kWarning, "cannot restore a limit of swap").Add(restored.error());
    }
  }
  wire::Reclaimed reclaimed;
  if (run.stopped) {
    run.done(Fail(Code::kFailedPrecondition, "sandbox " + run.id + " goes on"));
  } else if (bytes && wire::DecodeFields(*bytes, &reclaimed)) {
    run.done(reclaimed);
  } else {
    run.done(Fail(Code::kInternal, "the process that brings memory to swap died"));
  }
  Advance();
  return true;
}

}  // namespace atl::spawner
