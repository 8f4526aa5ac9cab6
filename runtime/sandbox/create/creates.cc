#include "runtime/sandbox/create/creates.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"

namespace atl::sandbox {

void Creates::Begin(Checked checked, const Wanted& wanted, const std::shared_ptr<Attempt>& attempt,
                    std::unique_ptr<ParkedSandbox> parked) {
  const std::string id = checked.sandbox.id;
  const Origin origin = parked ? Origin::kPool : attempt->request().origin;
  const std::string tenant = checked.sandbox.tenant;
  const bool stocked = checked.sandbox.stocked;
  Add(std::move(checked.sandbox), attempt,
      std::make_shared<Build>(
          *this,
          Launch::Order{id, tenant, wanted.request_id, origin, std::move(checked.awaited_image),
                        std::move(checked.names_of), wanted.registry_as, std::move(parked)}));
  if (!stocked) parts_.room.GiveWay();
  parts_.objects.Keep(id, wanted.mounts);
  HaveVolumes(id, wanted.mounts, std::move(checked.narrowing));
}

Sandbox& Creates::Add(Sandbox sandbox, const std::shared_ptr<Attempt>& attempt,
                      std::shared_ptr<Launch> launch) {
  Sandbox& added = parts_.registry.Add(std::move(sandbox));
  parts_.room.Hold(added);
  parts_.layers.Hold(added.layers);
  attempt->Take(added.id);
  parts_.machine.Own(added, attempt);
  parts_.launches.Add(added, std::move(launch));
  return added;
}

void Creates::BuildAgain(Sandbox& sandbox) {
  parts_.launches.Add(
      sandbox, std::make_shared<Build>(
                   *this, Launch::Order{.host_id = HostId(sandbox), .tenant = sandbox.tenant}));
  parts_.machine.ApplyAnyway(sandbox, Event::kAdmitted, {});
}

void Creates::HaveVolumes(const std::string& id, const std::vector<VolumeMount>& mounts,
                          std::shared_ptr<const tenants::Narrowing> narrowing) {
  const Sandbox* const sandbox = parts_.registry.Look(id);
  if (mounts.empty() || sandbox == nullptr) return Acquired(id);
  const tenants::Caller owner{.tenant = sandbox->tenant, .narrowing = std::move(narrowing)};
  parts_.volumes.Acquire(owner, id, mounts, [this, id](Status acquired, wire::Volume::Kind failed) {
    if (acquired) return Acquired(id);
    if (Sandbox* const refused = parts_.registry.Look(id)) {
      Refuse(*refused, CreateError(std::move(acquired).error(), failed));
    }
  });
}

void Creates::Acquired(const std::string& id) {
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr) return parts_.volumes.Release(id);
  if (parts_.attempts.stopping()) {
    return Refuse(*sandbox, CreateError(ShuttingDown()));
  }
  Event event = Event::kAdmitted;
  const auto launch = parts_.launches.Find(*sandbox);
  if (const std::string& image = launch->order().awaited_image; !image.empty()) {
    PullUnlessThere(*sandbox, *launch);
    if (parts_.imports.IsRunning(image)) {
      event = Event::kMustWait;
    } else if (Status there = TakeImage(*sandbox); !there) {
      return Refuse(*sandbox, CreateError(std::move(there).error()));
    }
  }
  if (Status recorded = parts_.machine.Apply(*sandbox, event, {}); !recorded) {
    if (Sandbox* const refused = parts_.registry.Look(id)) {
      Refuse(*refused, CreateError(std::move(recorded).error().Wrap("record the new sandbox")));
    }
  }
}

// All sandboxes that wait for one image share its pull, with the credentials of the first.
void Creates::PullUnlessThere(const Sandbox& sandbox, Launch& launch) {
  images::Credentials credentials = launch.TakeCredentials();
  const std::string& key = launch.order().awaited_image;
  const std::string& image = sandbox.spec.image;
  const tenants::Caller owner{.tenant = launch.order().names_of};
  if (parts_.imports.IsRunning(key) || parts_.images.Find(owner, image)) return;
  // The host's import that the sandbox was to wait for has failed meanwhile.
  if (key != images::ImageKey(owner.tenant, image) || !parts_.puller.MayPull(image)) return;
  const auto pending = std::make_shared<PendingImports::Id>();
  auto progress = parts_.puller.Pull(
      owner, image, std::move(credentials),
      [this, pending](const Status& pulled) { parts_.imports.End(*pending, pulled); });
  *pending = parts_.imports.Begin(key, std::move(progress));
}

void Creates::AwaitImage(Sandbox& sandbox) {
  parts_.volumes.Keep(sandbox.id);
  parts_.history.Note(sandbox, parts_.clock.UnixMillis());
  parts_.expiry.SetDeadline(sandbox);
  parts_.imports.Wait(
      parts_.launches.Find(sandbox)->order().awaited_image, sandbox.tenant, sandbox.id,
      {guard_([this, id = sandbox.id](const std::string& text) { Progress(id, text); }),
       guard_([this, id = sandbox.id](const Status& imported) { Imported(id, imported); })});
  parts_.machine.Acknowledge(sandbox);
}

void Creates::Progress(const std::string& id, const std::string& text) {
  if (Sandbox* const sandbox = parts_.registry.Look(id)) sandbox->message = text;
}

Status Creates::TakeImage(Sandbox& sandbox) {
  const tenants::Caller owner{.tenant = parts_.launches.Find(sandbox)->order().names_of};
  ATOLL_ASSIGN(images::Image image, parts_.images.Find(owner, sandbox.spec.image));
  ATOLL_TRY(parts_.check.Image(sandbox, std::move(image)));
  // A sandbox that already Holds did so without the layers of its awaited image.
  if (Holds(sandbox.state)) parts_.layers.Hold(sandbox.layers);
  return {};
}

void Creates::Imported(const std::string& id, const Status& imported) {
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr || sandbox->state != State::kAwaiting) return;
  const std::string image = sandbox->spec.image;
  Status usable = TakeImage(*sandbox);
  // Other sandboxes may have taken the memory meanwhile. Its tenant has counted it all the time.
  if (usable) usable = parts_.room.CheckHost(sandbox->spec);
  // After a failed import another image of that name may serve. If there is none, the import's
  // error is the cause.
  if (!usable && !imported) {
    usable = Fail(Error(imported.error()).Wrap("image " + image + " was not imported"));
  }
  if (!usable) return Refuse(*sandbox, CreateError(std::move(usable).error()));
  parts_.machine.ApplyAnyway(*sandbox, Event::kImported,
                             {"CONTAINER_STARTING", "Sandbox is being built"});
  parts_.room.GiveWay();
}

std::string Creates::Build::Tier() const {
  const Sandbox* const sandbox = creates_.parts_.registry.ByHost(order().host_id);
  // A sandbox that was deleted meanwhile is refused once it has the slot.
  return TierOf(sandbox == nullptr ? Spec() : sandbox->spec);
}

Result<const Sandbox*> Creates::Build::Begin(uint32_t slot) {
  const Creates::Parts& parts = creates_.parts_;
  Sandbox* const sandbox = parts.registry.ByHost(order().host_id);
  if (sandbox == nullptr || sandbox->state != State::kQueued) {
    return atl::Fail(Code::kFailedPrecondition, "deleted before it was built");
  }
  ATOLL_TRY(parts.network.ClaimSlot(slot, sandbox->spec.network));
  parts.vaults.Attach(sandbox->id, slot);
  sandbox->slot = slot;
  parts.machine.ApplyAnyway(*sandbox, Event::kBegun, {});
  return sandbox;
}

const Sandbox* Creates::Build::Begun() {
  const Sandbox* const sandbox = creates_.parts_.registry.ByHost(order().host_id);
  return sandbox != nullptr && sandbox->state == State::kBuilding ? sandbox : nullptr;
}

void Creates::Build::SlotLost() {
  const Creates::Parts& parts = creates_.parts_;
  ::unlink(parts.registry.SocketPathOfHost(order().host_id).c_str());
  Sandbox* const sandbox = parts.registry.ByHost(order().host_id);
  if (sandbox == nullptr) return;
  sandbox->slot = 0;
  parts.machine.ApplyAnyway(*sandbox, Event::kSlotLost, {});
}

void Creates::Build::Done(const tl::expected<wire::Built, CreateError>& built) {
  Sandbox* const sandbox = creates_.parts_.registry.ByHost(order().host_id);
  if (sandbox == nullptr) return;
  if (!built) return creates_.Refuse(*sandbox, built.error());
  for (auto i = static_cast<size_t>(wire::kFirstBuildStep); i < built->micros.size(); ++i) {
    creates_.stats_.step_seconds[i].Record(built->micros[i] / 1e6, kStepBounds);
  }
  Built(*sandbox);
}

void Creates::Build::Built(Sandbox& sandbox) {
  Status recorded = creates_.parts_.machine.Apply(sandbox, Event::kBuilt, RunningCause());
  if (recorded) return;
  creates_.Refuse(sandbox, CreateError(std::move(recorded).error().Wrap("record the new sandbox")));
}

void Creates::Refuse(Sandbox& sandbox, const CreateError& error) {
  const Cause cause = CauseOf(error);
  if (parts_.machine.IsRecorded(sandbox)) {
    const Launch::Order& order = parts_.launches.Find(sandbox)->order();
    LogLine(LogLevel::kWarning, "cannot create a sandbox")
        .Add("sandbox", sandbox.id)
        .Add("request", order.request_id)
        .Add(error);
    ++stats_.origins[static_cast<size_t>(order.origin)].error;
    parts_.waiters.Settle(sandbox, Fail(error));
    return parts_.machine.ApplyAnyway(sandbox, Event::kGivenUp, cause);
  }
  const std::shared_ptr<Attempt> attempt = parts_.machine.AttemptOf(sandbox);
  // The attempt is already over: another child of the fork has failed before, or a client has
  // deleted this one.
  attempt->over() ? Abandon(sandbox, cause) : attempt->Fail(error);
}

void Creates::Publish(Sandbox& sandbox) {
  const std::string id = sandbox.id;
  const bool stocked = sandbox.stocked;
  const std::shared_ptr<Launch> launch = parts_.launches.Find(sandbox);
  parts_.volumes.Keep(id);
  // Answers the client first, because everything after it is news about a sandbox that the client
  // must know.
  parts_.machine.Acknowledge(sandbox);
  parts_.waiters.Settle(sandbox, {});
  parts_.expiry.SetDeadline(sandbox);
  parts_.launches.Watch(sandbox);
  const Launch::Order& order = launch->order();
  if (!stocked && order.awaited_image.empty()) {
    CountOk(order.origin, parts_.clock.BootMicros() - launch->asked_us());
  } else if (!stocked) {
    ++stats_.origins[static_cast<size_t>(order.origin)].ok;
  }
  if (const auto exit = launch->TakeExit()) exited_(sandbox, *exit);
}

void Creates::CountOk(Origin origin, int64_t took_us) {
  OriginStats& stats = stats_.origins[static_cast<size_t>(origin)];
  ++stats.ok;
  stats.seconds.Record(static_cast<double>(took_us) / 1e6, kSecondsBounds);
}

void Creates::TakeBack(const Attempt& attempt, const CreateError& why) {
  const Attempt::Request& request = attempt.request();
  const bool refused = IsRefusal(why);
  const size_t sandboxes = std::max<size_t>(1, attempt.sandboxes().size());
  if (request.kind != Attempt::Kind::kStock) {
    OriginStats& stats = stats_.origins[static_cast<size_t>(request.origin)];
    (refused ? stats.refused : stats.error) += sandboxes;
    if (refused && why.code() == Code::kResourceExhausted) {
      const bool queue = why.error_number() == EAGAIN;
      (queue ? stats_.refused_by_queue : stats_.refused_by_host) += sandboxes;
    }
  }
  LogFailed(
      attempt, why,
      request.kind == Attempt::Kind::kFork ? "cannot fork a sandbox" : "cannot create a sandbox");
  const Cause cause = CauseOf(why);
  for (const std::string& id : attempt.sandboxes()) {
    if (Sandbox* const sandbox = parts_.registry.Look(id)) Abandon(*sandbox, cause);
  }
}

void Creates::Abandon(Sandbox& sandbox, const Cause& cause) {
  const bool begun = sandbox.state == State::kBuilding || sandbox.state == State::kCancelled;
  // If the answer to the build is pending, the sandbox ends after that answer.
  const auto launch = parts_.launches.Find(sandbox);
  const bool answered = begun && launch != nullptr && !launch->in_flight();
  parts_.machine.ApplyAnyway(sandbox, answered ? Event::kNotBuilt : Event::kDelete, cause);
}

Cause Creates::CauseOf(const Error& error) const {
  return {"PROVISIONING_ERROR", WithoutPaths(error.message(), private_directories_)};
}

}  // namespace atl::sandbox
