#include "runtime/sandbox/lifecycle.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/sandbox/access_token.h"

namespace atl::sandbox {
namespace {

// More than a stock holds.
constexpr int kMaxLostSlots = 64;
constexpr int64_t kDestroyRetryUs = 5000 * 1000;
// What a sandbox says about itself is shown, not stored without bound.
constexpr size_t kMaxReportShown = 1024;

// The spawner's and the network's words about our own requests: only "no room" and "not there" are
// the client's business, anything else is our fault and not the client's.
Error AsBuildError(Error error) {
  const Code code = error.code();
  if (code == Code::kResourceExhausted || code == Code::kUnavailable) return error;
  // Where a volume is to stand is the client's word, and what stands there the image's.
  if (code == Code::kInvalidArgument && error.error_number() == 0 &&
      launch::FailedAt(error, wire::Step::kVolumes)) {
    return error;
  }
  return Error(Code::kInternal, error.message(), error.error_number());
}

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

}  // namespace

Lifecycle::Lifecycle(const Parts& parts, LifecycleConfig config)
    : loop_(parts.loop),
      clock_(parts.clock),
      spawner_(parts.spawner),
      network_(parts.network),
      images_(parts.images),
      store_(parts.store),
      slots_(parts.slots),
      volumes_(parts.volumes),
      health_(parts.health),
      config_(std::move(config)),
      admission_(config_.builds_at_once, config_.build_queue),
      builder_(loop_, spawner_, config_.socket_directory),
      expiry_(loop_, clock_,
              [this](const std::string& id) {
                Entry* entry = Look(id);
                if (entry == nullptr) return;
                LogLine(LogLevel::kInfo, "sandbox expired").Add("sandbox", id);
                ++stats_.expired;
                ApplyAnyway(*entry, Event::kExpire, {"EXPIRED", "its time to live is over"});
              }),
      logs_(
          loop_, clock_,
          {config_.log_directory, config_.log_max_bytes, config_.log_keep_after_removal_seconds}) {}

Lifecycle::Entry* Lifecycle::Look(const std::string& id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

const Sandbox* Lifecycle::Find(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.sandbox.state == State::kStopping) return nullptr;
  return &found->second.sandbox;
}

bool Lifecycle::IsGone(const std::string& id) {
  if (const Entry* entry = Look(id)) return entry->sandbox.state == State::kStopping;
  if (!gone_) return false;
  const auto gone = gone_->Contains(id);
  if (!gone) LogLine(LogLevel::kWarning, "cannot look for a gone sandbox").Add(gone.error());
  return gone.value_or(false);
}

std::vector<const Sandbox*> Lifecycle::All() const {
  std::vector<const Sandbox*> all;
  all.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) {
    if (entry.sandbox.state != State::kStopping) all.push_back(&entry.sandbox);
  }
  return all;
}

bool Lifecycle::AnswerEarly(const CreateSpec& spec, Created& done) {
  if (stopping_) {
    done(Fail(Code::kUnavailable, "atolld is shutting down"));
    return true;
  }
  if (Repeated(spec, done)) return true;
  auto prepared = Prepare(spec);
  if (prepared) return false;
  done(Fail(std::move(prepared).error()));
  return true;
}

void Lifecycle::Create(CreateSpec spec, Created done) {
  // Only an entry keeps what Volumes has acquired for it.
  auto unused = Cleanup([this, id = spec.id] { ReleaseVolumes(id); });
  if (stopping_) return done(Fail(Code::kUnavailable, "atolld is shutting down"));
  if (Repeated(spec, done)) return;
  auto prepared = Prepare(spec);
  if (!prepared) return done(Fail(std::move(prepared).error()));
  unused.Release();
  const std::string id = prepared->sandbox.id;
  Entry& entry = entries_.emplace(id, std::move(*prepared)).first->second;
  entry.created.push_back(std::move(done));
  if (const auto key = KeyOf(entry)) idempotency_.Add(*key);
  if (!entry.awaited.empty()) return AwaitImage(entry);
  Enqueue(entry);
}

void Lifecycle::Enqueue(Entry& entry) {
  const std::string id = entry.sandbox.id;
  Hold(entry);
  entry.building = true;
  slots_.SetBusy(true);
  if (auto entered = admission_.Enter([this, id] { TakeTurn(id); }); !entered) {
    BuildFailed(entry, std::move(entered).error());
  }
}

void Lifecycle::TakeTurn(const std::string& id) {
  slots_.Take([this, id](Result<SlotPool::Ready> slot) { GotSlot(id, std::move(slot)); });
}

void Lifecycle::GotSlot(const std::string& id, Result<SlotPool::Ready> slot) {
  Entry* entry = Look(id);
  if (entry == nullptr || entry->sandbox.state != State::kPending || !slot) {
    if (slot) slots_.Discard(slot->number);
    if (entry != nullptr) {
      BuildFailed(*entry, slot ? Error(Code::kFailedPrecondition, "deleted before it was built")
                               : AsBuildError(std::move(slot).error()));
    }
    return EndTurn();
  }
  entry->sandbox.slot = slot->number;
  if (Status claimed = network_.ClaimSlot(slot->number, entry->sandbox.network); !claimed) {
    slots_.Discard(std::exchange(entry->sandbox.slot, 0));
    BuildFailed(*entry, AsBuildError(std::move(claimed).error()));
    return EndTurn();
  }
  const auto addresses = netpolicy::AddressesOf(config_.instance, slot->number);
  auto asked = builder_.Build(entry->sandbox, std::move(slot->control), addresses, entry->config,
                              [this, id](Result<BuiltSandbox> r) {
                                if (!r && LostSlot(id, r.error())) return TakeTurn(id);
                                Built(id, std::move(r));
                                EndTurn();
                              });
  if (asked) {
    entry->spawned = true;
    return;
  }
  BuildFailed(*entry, AsBuildError(std::move(asked).error()));
  EndTurn();
}

bool Lifecycle::LostSlot(const std::string& id, const Error& error) {
  Entry* entry = Look(id);
  if (error.code() != Code::kFailedPrecondition || entry == nullptr ||
      entry->sandbox.state != State::kPending || ++entry->lost_slots > kMaxLostSlots) {
    return false;
  }
  LogLine(LogLevel::kWarning, "a slot in stock was lost, taking another")
      .Add("sandbox", id)
      .Add("slot", entry->sandbox.slot);
  ::unlink(SocketPathOf(id).c_str());
  entry->spawned = false;
  slots_.Release(std::exchange(entry->sandbox.slot, 0));
  return true;
}

void Lifecycle::EndTurn() {
  admission_.Leave();
  slots_.SetBusy(!admission_.idle());
}

void Lifecycle::Built(const std::string& id, Result<BuiltSandbox> result) {
  Entry* entry = Look(id);
  if (entry == nullptr) return;
  if (!result) return BuildFailed(*entry, AsBuildError(std::move(result).error()));
  entry->building = false;
  entry->built = true;
  entry->control = std::move(result->control);
  for (size_t i = 0; i < stats_.step_micros.size(); ++i) {
    stats_.step_micros[i] += result->built.micros[i];
    stats_.build_micros += result->built.micros[i];
  }
  if (auto applied = Apply(*entry, Event::kBuilt, {"CONTAINER_RUNNING", "Sandbox is running"});
      !applied) {
    BuildFailed(*entry, std::move(applied).error().Wrap("record the new sandbox"));
  }
}

void Lifecycle::BuildFailed(Entry& entry, Error error) {
  ++stats_.create_failed;
  entry.building = false;
  // That the spawner is away has been logged once, and each client is told: one that tries again
  // at once must not fill the log.
  const bool away = error.code() == Code::kUnavailable;
  LogLine(away ? LogLevel::kDebug : LogLevel::kWarning, "cannot create a sandbox")
      .Add("sandbox", entry.sandbox.id)
      .Add("request", entry.request_id)
      .Add(error);
  if (!entry.stored) idempotency_.Remove(entry.idempotency_key);
  const std::vector<Created> created = std::exchange(entry.created, {});
  ApplyAnyway(entry, entry.stored ? Event::kGivenUp : Event::kBuildFailed,
              {"PROVISIONING_ERROR", WithoutPaths(error.message(), config_.private_directories)});
  for (const Created& done : created) done(Fail(error));
}

void Lifecycle::Published(Entry& entry) {
  const std::string id = entry.sandbox.id;
  const int64_t took_us = clock_.BootMicros() - entry.asked_us;
  ++stats_.created;
  stats_.create_micros += static_cast<uint64_t>(took_us);
  entry.config = {};
  KeepVolumes(entry);
  // The answer first: whatever comes is news about a sandbox that the client knows.
  const std::vector<Created> created = std::exchange(entry.created, {});
  for (const Created& done : created) done(entry.sandbox);
  SetDeadline(entry);
  entry.control->Watch(
      [this, id](Result<wire::StartReport> report) { Reported(id, std::move(report)); });
  LogLine(LogLevel::kInfo, "sandbox created")
      .Add("sandbox", id)
      .Add("request", entry.request_id)
      .Add("took_us", took_us);
  Entry* still = Look(id);
  if (still != nullptr && still->early_exit) {
    const wire::SandboxRecord record = *std::exchange(still->early_exit, std::nullopt);
    Exited(*still, record);
  }
}

void Lifecycle::Reported(const std::string& id, Result<wire::StartReport> report) {
  Entry* entry = Look(id);
  if (entry == nullptr) return;
  if (report && report->kind == wire::StartReport::Kind::kStarted) return FollowOutput(*entry);
  // Nothing else comes on this socket; a missing report is explained by the exit that follows.
  const auto control = std::exchange(entry->control, nullptr);
  logs_.Abandon(id);
  if (report && report->kind == wire::StartReport::Kind::kFailed) {
    ApplyAnyway(*entry, Event::kStartFailed,
                {"ENTRYPOINT_START_FAILED",
                 "the entrypoint cannot be run: " + report->message.substr(0, kMaxReportShown)});
  }
}

void Lifecycle::OnExit(const wire::SandboxRecord& record) {
  if (Entry* entry = Look(record.id); entry != nullptr) Exited(*entry, record);
}

void Lifecycle::Exited(Entry& entry, const wire::SandboxRecord& record) {
  if (entry.sandbox.state == State::kPending) {
    entry.early_exit = record;
    return;
  }
  if (entry.control) {
    // Process 1 may have said why before it ended, and the two arrive on different sockets.
    const auto report = entry.control->Drain();
    if (report && report->kind == wire::StartReport::Kind::kFailed) {
      return Reported(entry.sandbox.id, *report);
    }
    if (report) FollowOutput(entry);
  }
  const bool clean = record.code_known && WIFEXITED(record.wait_status) &&
                     WEXITSTATUS(record.wait_status) == 0 && !record.oom_killed;
  if (IsLive(entry.sandbox.state)) {
    ++stats_.exited;
    LogLine(LogLevel::kInfo, "sandbox ended")
        .Add("sandbox", entry.sandbox.id)
        .Add("how", ExitText(record));
  }
  ApplyAnyway(entry, clean ? Event::kExitedZero : Event::kExitedError,
              {clean ? "CONTAINER_EXITED" : "CONTAINER_EXITED_ERROR", ExitText(record)});
}

Status Lifecycle::Delete(const std::string& id) {
  Entry* entry = Look(id);
  if (entry == nullptr || entry->sandbox.state == State::kStopping) {
    return Fail(Code::kNotFound, "sandbox " + id + " does not exist");
  }
  ATOLL_TRY(Apply(*entry, Event::kDelete, {"USER_DELETE", "deleted by request"}));
  ++stats_.deleted;
  return {};
}

std::optional<KeyRecord> Lifecycle::KeyOf(const Entry& entry) {
  if (entry.idempotency_key.empty()) return std::nullopt;
  return KeyRecord{entry.idempotency_key, entry.fingerprint, entry.sandbox.id,
                   entry.sandbox.created_at_ms};
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
  if (transition.next != sandbox.state) {
    const Sandbox before = sandbox;
    sandbox.state = transition.next;
    sandbox.reason = cause.reason;
    sandbox.message = cause.message;
    sandbox.transition_at_ms = clock_.UnixMillis();
    Status written;
    if (entry.stored) {
      // What waited for its image has layers only now.
      if (transition.action == Action::kPublish) written = store_.UpdateSpec(sandbox);
      if (written) written = store_.Update(sandbox);
    } else if (transition.action == Action::kPublish) {
      written = store_.Insert(sandbox, KeyOf(entry));
      entry.stored = written.has_value();
    }
    if (!written) {
      sandbox = before;
      return written;
    }
    Note(sandbox, std::string(StateName(sandbox.state)));
  }
  Perform(entry, transition.action);
  return {};
}

void Lifecycle::ApplyAnyway(Entry& entry, Event event, const Cause& cause) {
  auto applied = Apply(entry, event, cause);
  if (applied) return;
  LogLine(LogLevel::kError, "cannot record what happened to a sandbox; a restart will find it")
      .Add("sandbox", entry.sandbox.id)
      .Add("event", EventName(event))
      .Add(applied.error());
  const Transition transition = Next(entry.sandbox.state, event);
  entry.sandbox.state = transition.next;
  entry.sandbox.reason = cause.reason;
  entry.sandbox.message = cause.message;
  entry.sandbox.transition_at_ms = clock_.UnixMillis();
  Perform(entry, transition.action);
}

void Lifecycle::Perform(Entry& entry, Action action) {
  switch (action) {
    case Action::kPublish:
      return Published(entry);
    case Action::kRelease:
      return Release(entry);
    case Action::kKeep:
      Drop(entry);
      return SetDeadline(entry);
    case Action::kForget:
      return Forget(entry);
    case Action::kAwait:
      expiry_.Remove(entry.sandbox.id);
      if (entry.awaited.empty()) return;
      // There is no build yet whose answer would bring the release.
      imports_.Forget(entry.awaited, entry.sandbox.id);
      return PostReleased(entry);
    case Action::kFreeze:
      return AskFreeze(entry, true);
    case Action::kThaw:
      return AskFreeze(entry, false);
    case Action::kSettle:
      return Settle(entry, {});
    case Action::kNone:
    case Action::kDefer:
    case Action::kRefuse:
    case Action::kBug:
      return;
  }
}

void Lifecycle::Release(Entry& entry) {
  const std::string id = entry.sandbox.id;
  if (entry.sandbox.state == State::kStopping) expiry_.Remove(id);
  // Deleted between its build and its answer.
  for (const Created& done : std::exchange(entry.created, {})) {
    done(Fail(Code::kFailedPrecondition, "sandbox " + id + " was deleted while it was created"));
  }
  Settle(entry, Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile"));
  if (entry.releasing != 0) return;
  if (std::exchange(entry.control, nullptr)) logs_.Abandon(id);
  ::unlink(SocketPathOf(id).c_str());
  if (entry.spawned) {
    if (entry.release_asked_us == 0) entry.release_asked_us = clock_.BootMicros();
    const uint64_t order = entry.releasing = ++orders_;
    spawner_.Destroy(id,
                     [this, id, order](Status status) { Destroyed(id, order, std::move(status)); });
    return;
  }
  if (const uint32_t slot = std::exchange(entry.sandbox.slot, 0); slot != 0) slots_.Discard(slot);
  PostReleased(entry);
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
      if (again == nullptr || again->releasing != order) return;
      again->releasing = 0;
      Release(*again);
    });
    return;
  }
  entry->releasing = 0;
  entry->release_asked_us = 0;
  entry->spawned = false;
  ++removed_;
  if (const uint32_t slot = std::exchange(entry->sandbox.slot, 0); slot != 0) {
    // A build that failed may have left the slot as it was prepared.
    entry->built ? slots_.Release(slot) : slots_.Discard(slot);
  }
  if (entry->stored && entry->sandbox.state != State::kStopping) {
    if (auto written = store_.Update(entry->sandbox); !written) {
      LogLine(LogLevel::kWarning, "cannot record that a sandbox holds nothing any more")
          .Add("sandbox", id)
          .Add(written.error());
    }
  }
  ApplyAnyway(*entry, Event::kReleased, {});
}

void Lifecycle::PostReleased(Entry& entry) {
  // Not at once: the caller still holds the entry that this may remove.
  loop_.Post([this, id = entry.sandbox.id, order = entry.releasing = ++orders_] {
    Entry* released = Look(id);
    if (released == nullptr || released->releasing != order) return;
    released->releasing = 0;
    ApplyAnyway(*released, Event::kReleased, {});
  });
}

void Lifecycle::Forget(Entry& entry) {
  const std::string id = entry.sandbox.id;
  Drop(entry);
  const bool has_volumes = !entry.sandbox.volumes.empty();
  logs_.Remove(id);
  if (entry.stored && history_) history_->Remove(id);
  if (entry.stored) {
    // A row that cannot be removed says Stopping, and is finished by the next start.
    if (auto removed = store_.Remove(id); !removed) {
      LogLine(LogLevel::kWarning, "cannot remove the record of a deleted sandbox")
          .Add("sandbox", id)
          .Add(removed.error());
    }
  }
  entries_.erase(id);
  // Behind the record: until that is gone a restart would still find the user of the volumes.
  if (has_volumes) ReleaseVolumes(id);
}

void Lifecycle::KeepVolumes(const Entry& entry) {
  if (volumes_ != nullptr && !entry.sandbox.volumes.empty()) volumes_->Keep(entry.sandbox.id);
}

void Lifecycle::ReleaseVolumes(const std::string& id) {
  if (volumes_ != nullptr && !id.empty()) volumes_->Release(id);
}

void Lifecycle::Hold(Entry& entry) {
  entry.holds = true;
  ++held_.sandboxes;
  held_.memory_bytes += entry.sandbox.limits.memory_bytes;
  held_.pids += entry.sandbox.limits.pids;
  for (wire::LayerId layer : entry.sandbox.layers) ++layer_users_[layer];
}

void Lifecycle::Drop(Entry& entry) {
  if (!std::exchange(entry.holds, false)) return;
  --held_.sandboxes;
  held_.memory_bytes -= entry.sandbox.limits.memory_bytes;
  held_.pids -= entry.sandbox.limits.pids;
  for (wire::LayerId layer : entry.sandbox.layers) {
    const auto found = layer_users_.find(layer);
    if (found != layer_users_.end() && --found->second == 0) layer_users_.erase(found);
  }
  images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
}

}  // namespace atl::sandbox
