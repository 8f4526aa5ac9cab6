#include "runtime/sandbox/create/launch.h"

#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

// Exceeds the size of any stock.
constexpr int kMaxLostSlots = 64;
constexpr char kDeleted[] = "deleted before it was built";

// Converts errors of the spawner and the network about the daemon's own requests. Only "no room"
// and "not there" concern the client; any other error is the daemon's fault.
Error AsBuildError(Error error) {
  const Code code = error.code();
  if (code == Code::kResourceExhausted || code == Code::kUnavailable) return error;
  // The client chooses the target of a volume, and the image decides what is at that path. So this
  // error concerns the client.
  if (code == Code::kInvalidArgument && error.error_number() == 0 &&
      wire::IsFailedAt(wire::Step::kVolumes, error)) {
    return error;
  }
  return Error(Code::kInternal, error.message(), error.error_number());
}

}  // namespace

Launch::Launch(const Parts& parts, Order order)
    : parts_(parts), order_(std::move(order)), asked_us_(parts.clock.BootMicros()) {}

void Launch::Fail(Error error) {
  Done(tl::unexpected(CreateError(std::move(error))));
}

void Launch::Enqueue() {
  if (order_.parked) return Claim();
  const auto self = shared_from_this();
  parts_.slots.SetBusy(true);
  auto entered =
      parts_.admission.Enter(order_.tenant, [self, entered_us = parts_.clock.BootMicros()] {
        self->parts_.admission.CountWait(self->parts_.clock.BootMicros() - entered_us);
        self->TakeTurn();
      });
  if (!entered) Fail(std::move(entered).error());
}

// A claim needs no build, so it takes no turn.
void Launch::Claim() {
  const std::shared_ptr<ParkedSandbox> parked = std::move(order_.parked);
  const uint32_t slot = parked->sandbox.slot;
  const auto begun = Begin(slot);
  if (!begun) {
    parts_.orphans.Destroy(order_.host_id, slot);
    return Fail(AsBuildError(begun.error()));
  }
  if (parked->sandbox.spec.limits == (*begun)->spec.limits) return StartParked(*parked, **begun);
  in_flight_ = true;
  parts_.builder.ChangeLimits(**begun, [self = shared_from_this(), parked](Status limited) {
    self->Limited(*parked, std::move(limited));
  });
}

void Launch::Limited(ParkedSandbox& parked, Status limited) {
  if (!limited && limited.error().code() != Code::kUnavailable) {
    return BuildInstead(parked, limited.error());
  }
  in_flight_ = false;
  if (!limited) return Fail(AsBuildError(std::move(limited).error()));
  if (const Sandbox* const begun = Begun()) return StartParked(parked, *begun);
  // Its client has cancelled it, so nothing of it is started.
  control_ = std::move(parked.control);
  Done(wire::Built());
}

void Launch::StartParked(ParkedSandbox& parked, const Sandbox& sandbox) {
  if (Status sent = parked.control->Send(StartMessageOf(sandbox)); !sent) {
    return Fail(AsBuildError(std::move(sent).error()));
  }
  if (parked.settled) parked.settled(true);
  control_ = std::move(parked.control);
  Done(wire::Built());
}

void Launch::BuildInstead(ParkedSandbox& parked, const Error& why) {
  LogLine(LogLevel::kWarning, "a parked sandbox cannot take the limits of its create; building one")
      .Add("sandbox", order_.host_id)
      .Add("request", order_.request_id)
      .Add(why);
  if (parked.settled) parked.settled(false);
  order_.origin = Origin::kCold;
  // The new sandbox has the same id, so the parked one goes first.
  parts_.orphans.Destroy(order_.host_id, parked.sandbox.slot,
                         [self = shared_from_this()](const Status& destroyed) {
                           self->in_flight_ = false;
                           if (!destroyed) return self->Fail(AsBuildError(destroyed.error()));
                           // The exit of the parked sandbox is not that of the new one.
                           (void)self->TakeExit();
                           const bool wanted = self->Begun() != nullptr;
                           self->SlotLost();
                           if (wanted) return self->Enqueue();
                           self->Fail(Error(Code::kFailedPrecondition, kDeleted));
                         });
}

void Launch::TakeTurn() {
  parts_.slots.Take(
      [self = shared_from_this()](Result<SlotPool::Ready> slot) { self->GotSlot(std::move(slot)); },
      Tier());
}

void Launch::GotSlot(Result<SlotPool::Ready> slot) {
  if (!slot) {
    Fail(AsBuildError(std::move(slot).error()));
    return EndTurn();
  }
  const auto begun = Begin(slot->number);
  in_flight_ = begun.has_value();
  if (begun && ObjectVolumes::Wanted(**begun)) {
    slot_ = std::move(*slot);
    return MountBuckets(**begun);
  }
  Build(begun, std::move(*slot));
}

void Launch::MountBuckets(const Sandbox& sandbox) {
  // A remote object store may be slow, so the launch gives its turn to another meanwhile.
  EndTurn();
  parts_.objects.Mount(sandbox, slot_.number, [self = shared_from_this()](Status mounted) {
    self->Mounted(std::move(mounted));
  });
}

void Launch::Mounted(Status mounted) {
  const auto take_turn = [self = shared_from_this()] {
    const Sandbox* const begun = self->Begun();
    if (begun != nullptr) return self->Build(begun, std::move(self->slot_));
    self->SlotLost();
    self->Build(atl::Fail(Code::kFailedPrecondition, kDeleted), std::move(self->slot_));
  };
  if (mounted) {
    parts_.slots.SetBusy(true);
    Status entered = parts_.admission.Enter(order_.tenant, take_turn);
    if (!entered) mounted = std::move(entered);
  }
  if (mounted) return;
  in_flight_ = false;
  SlotLost();
  parts_.slots.Release(slot_.number);
  slot_ = {};
  Done(tl::unexpected(CreateError(std::move(mounted).error(), wire::Volume::Kind::kObjects)));
}

void Launch::Build(const Result<const Sandbox*>& begun, SlotPool::Ready slot) {
  const uint32_t number = slot.number;
  Status asked;
  if (!begun) {
    asked = atl::Fail(begun.error());
  } else {
    auto built = [self = shared_from_this(), number](Result<BuiltSandbox> result) {
      self->Built(number, std::move(result));
    };
    Builder& builder = parts_.builder;
    asked = order_.start ? builder.Build(**begun, std::move(slot.control), std::move(built))
                         : builder.Park(**begun, std::move(slot.control), std::move(built));
    if (!asked) SlotLost();
  }
  if (asked) return;
  in_flight_ = false;
  parts_.slots.Release(number);
  Fail(AsBuildError(std::move(asked).error()));
  EndTurn();
}

void Launch::Built(uint32_t slot, Result<BuiltSandbox> result) {
  // The spawner has lost the slot, for instance because the host's OOM killer has killed its execd
  // in stock. Another slot may work.
  if (!result && result.error().code() == Code::kFailedPrecondition &&
      ++lost_slots_ <= kMaxLostSlots) {
    LogLine(LogLevel::kWarning, "a slot in stock was lost, taking another")
        .Add("sandbox", order_.host_id)
        .Add("slot", slot);
    SlotLost();
    parts_.slots.MarkUsed(slot);
    parts_.slots.Release(slot);
    return TakeTurn();
  }
  in_flight_ = false;
  if (result) {
    parts_.slots.MarkUsed(slot);
    control_ = std::move(result->control);
    Done(result->built);
  } else {
    Fail(AsBuildError(std::move(result).error()));
  }
  EndTurn();
}

void Launch::EndTurn() {
  parts_.admission.Leave(order_.tenant);
  parts_.slots.SetBusy(!parts_.admission.idle());
}

void Launch::Watch(std::function<void(const Result<wire::StartReport>& report)> reported) {
  control_->Watch([this, reported = std::move(reported)](const Result<wire::StartReport>& report) {
    const auto self = shared_from_this();
    reported(report);
  });
}

std::optional<wire::StartReport> Launch::Drain() {
  return control_ ? control_->Drain() : std::nullopt;
}

}  // namespace atl::sandbox
