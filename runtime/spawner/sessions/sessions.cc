#include "runtime/spawner/sessions/sessions.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/sessions/session_start.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {
namespace {

// Limit for all sandboxes together, because each build uses a process of the spawner for as long as
// its sandbox is frozen. One sandbox has one build at a time.
constexpr size_t kBuildsAtOnce = 16;
// Killed processes mostly leave their group within microseconds.
constexpr int64_t kFirstEndLookUs = 200;
constexpr int64_t kSlowestLookUs = 20 * 1000;
constexpr int64_t kEndPatienceUs = 10 * 1000 * 1000;
constexpr int64_t kBuildPatienceUs = 10 * 1000 * 1000;

}  // namespace

void Sessions::Make(wire::MakeSession message, Done done) {
  auto living = sandboxes_.Living(message.id);
  if (!living) return done(Fail(std::move(living).error()));
  if (Building(living->slot) || builds_.size() >= kBuildsAtOnce) {
    return done(Fail(Code::kUnavailable, "session: too many are being made"));
  }
  const auto tier = sandboxes_.TierOf(message.id, Verb::kSession);
  if (!tier) return done(Fail(tier.error()));
  // The first process would be born frozen, and its parent would wait for it.
  if (sandboxes_.StandsStill(message.id)) {
    return done(Fail(Code::kFailedPrecondition, "session: the sandbox is paused"));
  }
  Status right = CheckSocket(message.control.get(), false);
  if (right) right = CheckSocket(message.connections.get(), false);
  if (!right) return done(std::move(right));
  auto report = sys::MakePipe();
  if (!report) return done(Fail(std::move(report).error()));
  std::vector<int> keep = host_.Descriptors();
  keep.insert(keep.end(), {living->pidfd.get(), message.control.get(), message.connections.get(),
                           report->write.get()});
  const auto pid = StartWorker({.name = "atoll-session"}, keep, [&] {
    const Status built =
        (*tier)->MakeSession(living->slot, living->pidfd.get(), living->pid, message);
    [[maybe_unused]] const Status told = sys::WriteAll(report->write.get(), EncodeOutcome(built));
  });
  if (!pid) return done(Fail(pid.error()));
  ::fcntl(report->read.get(), F_SETFL, O_NONBLOCK);
  const uint64_t build = ++last_build_;
  const auto watch =
      loop_.Watch(report->read.get(), EPOLLIN, [this, build](uint32_t) { OnReport(build); });
  ATOLL_CHECK(watch.has_value());
  const std::string group = SessionGroup(SlotGroup(living->slot), message.spec.number);
  builds_[build] =
      Build{living->slot, *pid, group, std::move(report->read), *watch, std::move(done)};
  // A build that is held up, by its sandbox or by somebody on the host, would keep its place for
  // ever.
  loop_.After(kBuildPatienceUs, [this, build, group] {
    if (builds_.contains(build)) Kill(group);
  });
}

void Sessions::Kill(const std::string& group) {
  const Status killed = host_.cgroups.Kill(group);
  if (killed || killed.error().error_number() == ENOENT) return;
  LogLine(LogLevel::kWarning, "cannot end a session that is being made").Add(killed.error());
}

void Sessions::Abandon() {
  for (const auto& [number, build] : builds_) {
    // The builder is killed before its group, so that it adds no process to the killed group.
    ::kill(build.pid, SIGKILL);
    Kill(build.group);
  }
}

bool Sessions::Building(uint32_t slot) const {
  return std::any_of(builds_.begin(), builds_.end(),
                     [slot](const auto& entry) { return entry.second.slot == slot; });
}

void Sessions::OnReport(uint64_t number) {
  const auto found = builds_.find(number);
  const Build build = std::move(found->second);
  builds_.erase(found);
  loop_.Unwatch(build.watch);
  // A report comes in one piece. A builder that reports nothing was killed.
  char piece[kMaxSessionReport];
  const ssize_t n = TEMP_FAILURE_RETRY(::read(build.report.get(), piece, sizeof piece));
  build.done(DecodeOutcome(std::string(piece, static_cast<size_t>(std::max<ssize_t>(n, 0)))));
}

void Sessions::End(const std::string& id, uint32_t number, Done done) {
  const auto living = sandboxes_.Living(id);
  // The sessions of a sandbox end with it.
  if (!living) return done({});
  const Status killed = host_.cgroups.Kill(SessionGroup(SlotGroup(living->slot), number));
  if (!killed && killed.error().error_number() != ENOENT) return done(killed);
  AwaitEnd(id, living->slot, number, SystemClock().BootMicros(), kFirstEndLookUs, done);
}

void Sessions::AwaitEnd(const std::string& id, uint32_t slot, uint32_t number, int64_t since_us,
                        int64_t again_us, const Done& done) {
  // The slot may belong to another sandbox by now.
  if (sandboxes_.LiveSlot(id) != slot) return done({});
  Status removed = Remove(slot, number);
  const bool busy = !removed && removed.error().error_number() == EBUSY;
  if (!busy || SystemClock().BootMicros() - since_us > kEndPatienceUs) {
    return done(std::move(removed));
  }
  loop_.After(again_us, [this, id, slot, number, since_us, again_us, done] {
    AwaitEnd(id, slot, number, since_us, std::min(again_us * 2, kSlowestLookUs), done);
  });
}

Status Sessions::Remove(uint32_t slot, uint32_t number) {
  ATOLL_TRY(host_.cgroups.RemoveNested(SessionGroup(SlotGroup(slot), number)));
  // The discarded directory's name belongs to the slot, so that no other sandbox gets the slot
  // before everything is gone. It is not the slot's bare name, whose disk limit the janitor
  // removes.
  return janitor_.Discard(host_.store.root(), Store::SessionPath(slot, number),
                          SlotGroup(slot) + ".x" + std::to_string(number));
}

}  // namespace atl::spawner
