#include "runtime/sandbox/lifecycle.h"

#include <sys/wait.h>
#include <unistd.h>

#include <tuple>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kDestroyRetryUs = 5000 * 1000;
// What a sandbox says about itself is shown, not stored without bound.
constexpr size_t kMaxReportShown = 1024;
// Of one that cannot start, if it does not end by itself.
constexpr int64_t kLastWordsUs = 1'000'000;

std::string ExitText(const wire::SandboxRecord& record) {
  std::string text;
  if (!record.code_known) {
    text = "process 1 ended while nothing watched it; its exit code is not known";
  } else if (WIFSTOPPED(record.wait_status)) {
    text = "execd, process 1, was stopped by signal " +
           std::to_string(WSTOPSIG(record.wait_status)) + " and answered nobody; it was killed";
  } else if (WIFEXITED(record.wait_status)) {
    text = "exit code " + std::to_string(WEXITSTATUS(record.wait_status));
  } else {
    text = "process 1 was killed by signal " + std::to_string(WTERMSIG(record.wait_status));
  }
  if (record.oom_killed) text += "; the sandbox was out of memory";
  return text;
}

CreateError Deleted(const std::string& text) {
  return CreateError(Error(Code::kFailedPrecondition, text));
}

}  // namespace

Lifecycle::Lifecycle(const Parts& parts, LifecycleConfig config)
    : loop_(parts.loop),
      clock_(parts.clock),
      spawner_(parts.spawner),
      network_(parts.network),
      images_(parts.images),
      store_(parts.store),
      slots_(parts.slots),
      imports_(parts.imports),
      puller_(parts.puller),
      volumes_(parts.volumes),
      objects_(parts.objects),
      snapshots_(parts.snapshots),
      logs_(parts.logs),
      history_(parts.history),
      health_(parts.health),
      config_(std::move(config)),
      builder_(loop_, spawner_, config_.socket_directory, config_.instance),
      sessions_(loop_, spawner_),
      vaults_(loop_, network_, config_.interceptor),
      launch_parts_{*this, clock_, imports_, parts.admission, slots_, builder_, objects_},
      preparations_(loop_),
      pools_({loop_, clock_, parts.admission, slots_, builder_, parts.pools, *this},
             config_.parked_sandboxes, config_.automatic_pools),
      templates_({loop_, clock_, parts.admission, parts.templates, *this},
                 config_.parked_sandboxes),
      expiry_(loop_, clock_,
              [this](const std::string& id) {
                Entry* entry = Look(id);
                if (entry == nullptr) return;
                LogLine(LogLevel::kInfo, "sandbox expired").Add("sandbox", id);
                ApplyAnyway(*entry, Event::kExpire, {"EXPIRED", "its time to live is over"});
              }),
      idle_(loop_, clock_, config_.cpu_micros, [this](const std::string& id) { OnIdle(id); }) {}

Lifecycle::Entry* Lifecycle::Look(const std::string& id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

Lifecycle::Entry* Lifecycle::LookHost(const std::string& host_id) {
  const auto other = host_ids_.find(host_id);
  Entry* const entry = Look(other == host_ids_.end() ? host_id : other->second);
  return entry != nullptr && HostId(entry->sandbox) == host_id ? entry : nullptr;
}

std::string Lifecycle::HostIdOf(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? id : HostId(found->second.sandbox);
}

bool Lifecycle::IsVisible(const Entry& entry) {
  return entry.sandbox.state != State::kAcquiring && !IsLeaving(entry.sandbox.state) &&
         !entry.sandbox.stocked;
}

Result<Lifecycle::Entry*> Lifecycle::Visible(const std::string& id) {
  Entry* entry = Look(id);
  if (entry != nullptr && IsVisible(*entry)) return entry;
  return Fail(Code::kNotFound, "sandbox " + id + " does not exist");
}

void Lifecycle::MeasureDisk(const std::string& id,
                            std::function<void(Result<wire::DiskUse>)> done) {
  const auto entry = Visible(id);
  if (!entry) return done(Fail(entry.error()));
  const Sandbox& sandbox = (*entry)->sandbox;
  if (!IsLive(sandbox.state)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                         ": only a sandbox that runs or is paused has files"));
  }
  spawner_.Ask(wire::MeasureSandbox{HostId(sandbox)}, std::move(done));
}

const Sandbox* Lifecycle::Find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() || !IsVisible(found->second) ? nullptr : &found->second.sandbox;
}

bool Lifecycle::IsGone(const std::string& id) {
  if (const Entry* entry = Look(id)) return IsLeaving(entry->sandbox.state);
  if (!gone_) return false;
  const auto gone = gone_->Contains(id);
  if (!gone) LogLine(LogLevel::kWarning, "cannot look for a gone sandbox").Add(gone.error());
  return gone.value_or(false);
}

std::vector<const Sandbox*> Lifecycle::All() const {
  std::vector<const Sandbox*> all;
  all.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) {
    if (IsVisible(entry)) all.push_back(&entry.sandbox);
  }
  return all;
}

std::vector<std::string> Lifecycle::AddressesOf(const Sandbox& sandbox) const {
  if (sandbox.slot == 0) return {};
  const auto addresses = netpolicy::AddressesOf(config_.instance, sandbox.slot);
  return {addresses.ipv4, addresses.ipv6};
}

void Lifecycle::AwaitEnd(const std::string& id, std::function<void()> then) {
  constexpr int64_t kEndUs = 1'000'000;
  AwaitEndUntil(id, clock_.BootMicros() + kEndUs, std::move(then));
}

void Lifecycle::AwaitEndUntil(const std::string& id, int64_t deadline_us,
                              std::function<void()> then) {
  constexpr int64_t kLookUs = 5'000;
  const Sandbox* const sandbox = Find(id);
  const bool over = sandbox == nullptr || !IsLive(sandbox->state);
  if (over || clock_.BootMicros() >= deadline_us) return then();
  loop_.After(kLookUs, [this, id, deadline_us, then = std::move(then),
                        alive = std::weak_ptr(alive_)]() mutable {
    if (!alive.expired()) AwaitEndUntil(id, deadline_us, std::move(then));
  });
}

void Lifecycle::Reported(const std::string& host_id, Result<wire::StartReport> report) {
  Entry* entry = LookHost(host_id);
  if (entry == nullptr) return;
  if (report && report->kind == wire::StartReport::Kind::kStarted) return FollowOutput(*entry);
  if (report && report->kind == wire::StartReport::Kind::kFailed) {
    // What a hook has printed comes behind the report; execd ends once that is taken.
    FollowOutput(*entry);
    entry->start_failure = report->message.substr(0, kMaxReportShown);
    loop_.After(kLastWordsUs, [this, host_id, alive = std::weak_ptr(alive_)] {
      Entry* const late = alive.expired() ? nullptr : LookHost(host_id);
      if (late != nullptr && IsLive(late->sandbox.state)) FailStart(*late);
    });
    return;
  }
  // Nothing else comes on this socket; it is explained by the exit that follows.
  entry->launch.reset();
  logs_.Abandon(host_id);
}

void Lifecycle::FailStart(Entry& entry) {
  if (!entry.start_failure) return;
  const std::string why = *std::exchange(entry.start_failure, std::nullopt);
  ApplyAnyway(entry, Event::kStartFailed,
              {"ENTRYPOINT_START_FAILED", "the entrypoint cannot be run: " + why});
}

void Lifecycle::FollowOutput(Entry& entry) {
  const auto launch = std::exchange(entry.launch, nullptr);
  std::string received;
  UniqueFd socket = launch->TakeSocket(&received);
  logs_.Follow(HostId(entry.sandbox), std::move(socket), received);
}

void Lifecycle::OnVolumeLost(const wire::VolumeLost& lost) {
  Entry* const entry = LookHost(lost.id);
  if (entry == nullptr || lost.index >= entry->sandbox.spec.volumes.size()) return;
  // Each spawner, and each comparison, tells of it again.
  if (!entry->lost_volumes.insert(lost.index).second) return;
  const Sandbox& sandbox = entry->sandbox;
  const std::string text = "the bucket at " + sandbox.spec.volumes[lost.index].target +
                           " is not served any more: what uses it is told that it is not "
                           "connected; create another sandbox";
  const auto before = history_.Find(sandbox.id);
  const bool known = before && std::any_of(before->begin(), before->end(), [&](const auto& event) {
                       return event.kind == kVolumeLost && event.message == text;
                     });
  if (known || IsLeaving(sandbox.state)) return;
  LogLine(LogLevel::kWarning, "a bucket is not served any more")
      .Add("sandbox", sandbox.id)
      .Add("volume", sandbox.spec.volumes[lost.index].target);
  history_.Add(sandbox.id, {clock_.UnixMillis(), kVolumeLost, "VOLUME_LOST", text});
}

void Lifecycle::OnExit(const wire::SandboxRecord& record) {
  // Nothing has been started in that yet.
  if (Rollback* const rollback = FindRollback(record.id)) return rollback->launch->KeepExit(record);
  Entry* const entry = LookHost(record.id);
  if (entry == nullptr) return pools_.Lost(record.id);
  const bool ended = record.code_known && WIFEXITED(record.wait_status) && !record.oom_killed;
  const bool stopped = ended && entry->stopping;
  const bool clean = ended && (stopped || WEXITSTATUS(record.wait_status) == 0);
  const Event event = clean ? Event::kExitedZero : Event::kExitedError;
  if (Next(entry->sandbox.state, event).action == Action::kDefer) {
    return entry->launch->KeepExit(record);
  }
  if (IsLive(entry->sandbox.state)) {
    // Process 1 may have said why before it ended, and the two arrive on different sockets.
    const auto report = entry->launch ? entry->launch->Drain() : std::nullopt;
    if (report && report->kind == wire::StartReport::Kind::kFailed) {
      Reported(record.id, *report);
    } else if (report) {
      FollowOutput(*entry);
    }
    if (entry->start_failure) return FailStart(*entry);
    entry->oom_killed = record.oom_killed;
    LogLine(LogLevel::kInfo, "sandbox ended")
        .Add("sandbox", entry->sandbox.id)
        .Add("how", ExitText(record));
  }
  ApplyAnyway(*entry, event,
              {stopped ? "CONTAINER_STOPPED"
               : clean ? "CONTAINER_EXITED"
                       : "CONTAINER_EXITED_ERROR",
               ExitText(record)});
}

Status Lifecycle::Delete(const std::string& id) {
  ATOLL_ASSIGN(Entry * entry, Visible(id));
  return Apply(*entry, Event::kDelete, {"USER_DELETE", "deleted by request"});
}

Status Lifecycle::Apply(Entry& entry, Event event, const Cause& cause) {
  Sandbox& sandbox = entry.sandbox;
  const Transition transition = Next(sandbox.state, event);
  if (transition.action == Action::kBug) {
    LogLine(LogLevel::kError, "event in a state that does not have it")
        .Add("sandbox", sandbox.id)
        .Add("state", StateName(sandbox.state))
        .Add("event", EventName(event));
    return {};
  }
  if (transition.action == Action::kRefuse) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + sandbox.id + " is " + std::string(StateName(sandbox.state)) +
                    (sandbox.message.empty() ? "" : ": ") + sandbox.message);
  }
  const auto before =
      std::tuple(sandbox.state, sandbox.reason, sandbox.message, sandbox.transition_at_ms);
  Enter(sandbox, transition.next, cause);
  if (Status written = Record(entry, std::get<State>(before), transition.action); !written) {
    std::tie(sandbox.state, sandbox.reason, sandbox.message, sandbox.transition_at_ms) = before;
    return written;
  }
  Entered(entry, std::get<State>(before), transition.action);
  return {};
}

void Lifecycle::ApplyAnyway(Entry& entry, Event event, const Cause& cause) {
  auto applied = Apply(entry, event, cause);
  if (applied) return;
  LogLine(LogLevel::kError, "cannot record what happened to a sandbox; a restart will find it")
      .Add("sandbox", entry.sandbox.id)
      .Add("event", EventName(event))
      .Add(applied.error());
  const State before = entry.sandbox.state;
  const Transition transition = Next(before, event);
  Enter(entry.sandbox, transition.next, cause);
  Entered(entry, before, transition.action);
}

void Lifecycle::Enter(Sandbox& sandbox, State next, const Cause& cause) const {
  if (next == sandbox.state) return;
  if (StateName(next) != StateName(sandbox.state)) sandbox.transition_at_ms = clock_.UnixMillis();
  sandbox.state = next;
  if (cause.reason.empty()) return;
  sandbox.reason = cause.reason;
  sandbox.message = cause.message;
}

Status Lifecycle::Record(Entry& entry, State before, Action action) {
  const Sandbox& sandbox = entry.sandbox;
  if (!IsRecorded(entry)) {
    if (action != Action::kPublish && action != Action::kWait) return {};
    return store_.Insert(sandbox, entry.attempt->key());
  }
  // What waited for its image has layers only now.
  if (action == Action::kPublish) ATOLL_TRY(store_.UpdateSpec(sandbox));
  const bool shown = StateName(before) != StateName(sandbox.state);
  return shown || action == Action::kKeep ? store_.Update(sandbox) : Status();
}

void Lifecycle::Entered(Entry& entry, State before, Action action) {
  const Sandbox& sandbox = entry.sandbox;
  if (Holds(before) != Holds(sandbox.state)) Holds(before) ? Drop(sandbox) : Hold(sandbox);
  if (CountsForOrigin(before) != CountsForOrigin(sandbox.state)) {
    CountsForOrigin(before) ? pools_.Drop(sandbox) : pools_.Hold(sandbox);
  }
  if (IsLeaving(sandbox.state) && !IsLeaving(before)) {
    expiry_.Remove(sandbox.id);
    volumes_.Leave(sandbox.id);
  }
  WatchIdle(entry, before);
  if (sandbox.state == State::kPausing && before != State::kPausing) {
    entry.sandbox.reclaimed_bytes = 0;
  }
  const auto is_there = [](State state) { return !IsOver(state) && !IsLeaving(state); };
  if (is_there(before) && !is_there(sandbox.state)) {
    if (sandbox.stocked) {
      MemberLost(sandbox.id, sandbox.message);
    } else if (IsRecorded(entry)) {
      CountEnd(entry);
    }
  }
  if (StateName(before) != StateName(sandbox.state)) {
    Note(sandbox, std::string(StateName(sandbox.state)));
  }
  switch (action) {
    case Action::kWait:
      return AwaitImage(entry);
    case Action::kLaunch:
      return entry.launch->Enqueue();
    case Action::kPublish:
      return Published(entry);
    case Action::kRelease:
      return Release(entry);
    case Action::kKeep:
      return sandbox.stocked ? DisposeMember(sandbox.id) : SetDeadline(entry);
    case Action::kForget:
      return Forget(entry);
    case Action::kFreeze:
      return AskFreeze(entry, true);
    case Action::kThaw:
      return AskFreeze(entry, false);
    case Action::kSettle:
      return Settle(entry, {});
    case Action::kReplace:
      return DestroyFormer(entry);
    case Action::kBegin:
      return StartEntrypoint(entry);
    case Action::kNone:
    case Action::kDefer:
    case Action::kRefuse:
    case Action::kBug:
      return;
  }
}

void Lifecycle::CountEnd(const Entry& entry) {
  static constexpr std::pair<std::string_view, End> kReasons[] = {
      {"CONTAINER_EXITED", End::kExit},
      {"CONTAINER_STOPPED", End::kStopped},
      {"ENTRYPOINT_START_FAILED", End::kFailed},
      {"PROVISIONING_ERROR", End::kFailed},
      {"USER_DELETE", End::kDeleted},
      {"EXPIRED", End::kExpired},
      {"IDLE_ENDED", End::kIdle},
      {"SANDBOX_LOST", End::kLost}};
  End end = End::kError;
  for (const auto& [reason, means] : kReasons) {
    if (entry.sandbox.reason == reason) end = means;
  }
  if (entry.oom_killed) end = End::kOom;
  ++stats_.ends[static_cast<size_t>(end)];
}

cgroup::GroupEvents Lifecycle::group_events() const {
  cgroup::GroupEvents sum = ended_events_;
  for (const auto& [id, entry] : entries_) sum += entry.events;
  return sum;
}

std::unordered_map<std::string, uint32_t> Lifecycle::LiveGroups() const {
  std::unordered_map<std::string, uint32_t> live;
  for (const auto& [id, entry] : entries_) {
    const Sandbox& sandbox = entry.sandbox;
    if (IsLive(sandbox.state) && sandbox.slot != 0) live.emplace(HostId(sandbox), sandbox.slot);
  }
  return live;
}

void Lifecycle::SetGroupEvents(const std::unordered_map<std::string, cgroup::GroupEvents>& read) {
  for (const auto& [host_id, events] : read) {
    Entry* const entry = LookHost(host_id);
    if (entry != nullptr && IsLive(entry->sandbox.state)) entry->events = events;
  }
}

void Lifecycle::Release(Entry& entry) {
  const std::string id = entry.sandbox.id;
  if (std::exchange(entry.launch, nullptr)) logs_.Abandon(HostId(entry.sandbox));
  if (const SharedAttempt attempt = std::exchange(entry.attempt, nullptr)) {
    attempt->Fail(Deleted("sandbox " + id + " was deleted while it was created"));
  }
  Settle(entry, Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile"));
  vaults_.Remove(id);
  ::unlink(SocketPathOf(id).c_str());
  if (entry.release_asked_us == 0) {
    entry.release_asked_us = clock_.BootMicros();
    // The last moment at which its group is there.
    if (entry.sandbox.slot != 0) entry.events = config_.group_events(entry.sandbox.slot);
    ended_events_ += std::exchange(entry.events, {});
  }
  const uint64_t order = entry.releasing = ++orders_;
  spawner_.Ask(wire::Destroy{HostId(entry.sandbox)},
               [this, id, order](Status status) { Destroyed(id, order, std::move(status)); });
}

void Lifecycle::Destroyed(const std::string& id, uint64_t order, Status status) {
  Entry* entry = Look(id);
  if (entry == nullptr || entry->releasing != order) return;
  if (!status) {
    // Without a spawner Reconcile may be first to ask the next one.
    if (status.error().code() != Code::kUnavailable) {
      LogLine(LogLevel::kError, "cannot destroy a sandbox; trying again")
          .Add("sandbox", id)
          .Add(status.error());
    }
    loop_.After(kDestroyRetryUs, [this, id, order] {
      Entry* again = Look(id);
      if (again != nullptr && again->releasing == order) Release(*again);
    });
    return;
  }
  entry->releasing = 0;
  entry->release_asked_us = 0;
  ++removed_;
  if (const uint32_t slot = std::exchange(entry->sandbox.slot, 0); slot != 0) slots_.Release(slot);
  ApplyAnyway(*entry, Event::kReleased, {});
}

void Lifecycle::Forget(Entry& entry) {
  const std::string id = entry.sandbox.id;
  const bool recorded = IsRecorded(entry);
  if (const auto launch = std::exchange(entry.launch, nullptr)) launch->StopWaiting();
  const SharedAttempt attempt = std::exchange(entry.attempt, nullptr);
  Settle(entry, Fail(Code::kFailedPrecondition, "sandbox " + id + " was deleted meanwhile"));
  logs_.Remove(HostId(entry.sandbox), id);
  idle_.Forget(id);
  if (recorded) {
    history_.Remove(id);
    // A row that cannot be removed says Stopping, and is finished by the next start.
    if (auto removed = store_.Remove(id); !removed) {
      LogLine(LogLevel::kWarning, "cannot remove the record of a deleted sandbox")
          .Add("sandbox", id)
          .Add(removed.error());
    }
  }
  names_.Remove(entry.sandbox);
  host_ids_.erase(entry.sandbox.host_id);
  entries_.erase(id);
  // Behind the record: until that is gone a restart would still find the user of the volumes.
  volumes_.Release(id);
  objects_.Forget(id);
  if (attempt) attempt->Fail(Deleted("sandbox " + id + " was deleted before it was built"));
}

void Lifecycle::Note(const Sandbox& sandbox, std::string kind) {
  if (sandbox.stocked) return;
  HistoryEvent event{clock_.UnixMillis(), std::move(kind), sandbox.reason, sandbox.message};
  if (!IsLeaving(sandbox.state)) return history_.Add(sandbox.id, std::move(event));
  event.kind = kDeletedEvent;
  history_.Tell(sandbox.id, std::move(event));
}

void Lifecycle::Hold(const Sandbox& sandbox) {
  // What is built ahead gives way, and is counted by who has it in stock.
  if (!sandbox.stocked) held_.Add(sandbox.spec);
  HoldLayers(sandbox);
}

void Lifecycle::Drop(const Sandbox& sandbox) {
  if (!sandbox.stocked) held_.Remove(sandbox.spec);
  DropLayers(sandbox);
}

void Lifecycle::HoldLayers(const Sandbox& sandbox) {
  for (wire::LayerId layer : sandbox.layers) ++layer_users_[layer];
}

void Lifecycle::DropLayers(const Sandbox& sandbox) {
  for (wire::LayerId layer : sandbox.layers) {
    const auto found = layer_users_.find(layer);
    if (found != layer_users_.end() && --found->second == 0) layer_users_.erase(found);
  }
  images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
}

}  // namespace atl::sandbox
