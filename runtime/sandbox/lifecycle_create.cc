// A create, after the request has been parsed: check, acquire, record, launch. Until all has been
// checked nothing has an effect, and whatever fails behind that gives back what was acquired.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cgroup/limits_text.h"
#include "images/allowed.h"
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/create/access_token.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// execve(2): one string may have 32 pages. All of them share a quarter of the stack limit with the
// commands that clients add later.
constexpr size_t kMaxArgument = 128 << 10;
constexpr size_t kMaxArguments = 512 << 10;
// The end of the year 9999: what RFC 3339 can write.
constexpr int64_t kLastMoment = 253402300799000;

Status CheckArguments(const Spec& spec) {
  size_t total = 0;
  const auto check = [&](const std::string& what, size_t size) -> Status {
    total += size;
    if (size >= kMaxArgument) {
      return Fail(Code::kInvalidArgument, what + " is " + std::to_string(size) +
                                              " bytes long, allowed are " +
                                              std::to_string(kMaxArgument - 1));
    }
    return {};
  };
  for (const std::string& argument : spec.entrypoint) {
    if (argument.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument, "entrypoint: an argument holds a NUL character");
    }
    ATOLL_TRY(check("entrypoint: an argument", argument.size()));
  }
  if (!spec.entrypoint.empty() && spec.entrypoint.front().empty()) {
    return Fail(Code::kInvalidArgument, "entrypoint: its first element must name a program");
  }
  for (const wire::Hook& hook : spec.hooks) {
    for (const std::string& argument : hook.argv) {
      if (argument.find('\0') != std::string::npos) {
        return Fail(Code::kInvalidArgument,
                    "lifecycle " + hook.name + ": an argument holds a NUL character");
      }
      ATOLL_TRY(check("lifecycle " + hook.name + ": an argument", argument.size()));
    }
  }
  for (const auto& [name, value] : spec.env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument,
                  "env '" + name.substr(0, 64) +
                      "': a name must not be empty or hold '=', and neither name nor value a NUL");
    }
    ATOLL_TRY(check("env " + name.substr(0, 64), name.size() + value.size() + 1));
  }
  if (total > kMaxArguments) {
    return Fail(Code::kInvalidArgument,
                "entrypoint, env and lifecycle are " + std::to_string(total) +
                    " bytes together, allowed are " + std::to_string(kMaxArguments));
  }
  return {};
}

// What it has from its snapshot it has from all before that.
Status CheckEnvironment(const Sandbox& sandbox) {
  size_t total = 0;
  for (const std::string& variable : EnvironmentOf(sandbox)) total += variable.size() + 1;
  if (total <= kMaxArguments) return {};
  return Fail(Code::kInvalidArgument, "env is " + std::to_string(total) +
                                          " bytes with that of the image or the snapshot, allowed "
                                          "are " +
                                          std::to_string(kMaxArguments));
}

// "cpu" and "memory", each at most its limit: more of it could never be used.
Result<Reservation> ParseReservation(const std::map<std::string, std::string>& requests,
                                     const cgroup::Limits& limits) {
  Reservation reserved;
  for (const auto& [key, text] : requests) {
    uint64_t Reservation::*member = key == "memory" ? &Reservation::memory_bytes
                                    : key == "cpu"  ? &Reservation::cpu_millis
                                                    : nullptr;
    const auto field = std::find_if(cgroup::kLimitFields.begin(), cgroup::kLimitFields.end(),
                                    [&](const auto& each) { return each.key == key; });
    if (member == nullptr || field == cgroup::kLimitFields.end()) {
      return Fail(Code::kInvalidArgument, "resourceRequests '" + key.substr(0, 64) +
                                              "': what can be reserved is cpu and memory");
    }
    auto value = cgroup::ParseLimit(*field, text);
    if (!value) return Fail(std::move(value).error().Wrap("resourceRequests"));
    if (limits.*field->value != 0 && *value > limits.*field->value) {
      return Fail(Code::kInvalidArgument, "resourceRequests." + key + " of " +
                                              cgroup::LimitText(*field, *value) +
                                              " is more than its limit, " +
                                              cgroup::LimitText(*field, limits.*field->value));
    }
    reserved.*member = *value;
  }
  return reserved;
}

Status CheckPlatform(const std::optional<Platform>& asked, const std::string& image_arch,
                     const std::string& image, const std::string& host_arch) {
  if (asked && asked->os != "linux") {
    return Fail(Code::kInvalidArgument,
                "platform.os '" + asked->os + "' is not offered here; use linux");
  }
  if (asked && asked->arch != host_arch) {
    return Fail(Code::kInvalidArgument,
                "platform.arch '" + asked->arch + "' cannot run here; this host is " + host_arch);
  }
  if (!image_arch.empty() && image_arch != host_arch) {
    return Fail(Code::kInvalidArgument, "image " + image + " is for " + image_arch +
                                            "; this host is " + host_arch +
                                            ": import it for that architecture");
  }
  return {};
}

// When it ends by itself.
Result<int64_t> DeadlineOf(int64_t timeout_seconds, int64_t now_ms, std::optional<int64_t> most) {
  if (most && timeout_seconds > *most) {
    return Fail(Code::kInvalidArgument, "timeout " + std::to_string(timeout_seconds) +
                                            " s is longer than this server allows: at most " +
                                            std::to_string(*most) + " s");
  }
  if (timeout_seconds > (kLastMoment - now_ms) / 1000) {
    return Fail(Code::kInvalidArgument,
                "timeout " + std::to_string(timeout_seconds) + " s ends after year 9999");
  }
  return now_ms + timeout_seconds * 1000;
}

Origin OriginOf(const Wanted& wanted) {
  if (!wanted.spec.template_id.empty()) return Origin::kTemplate;
  return wanted.spec.snapshot_id.empty() ? Origin::kCold : Origin::kSnapshot;
}

}  // namespace

void Lifecycle::Create(const Wanted& wanted, const Created& done) {
  const SharedAttempt attempt = NewAttempt({.key = wanted.idempotency_key,
                                            .fingerprint = wanted.fingerprint,
                                            .request_id = wanted.request_id,
                                            .origin = OriginOf(wanted)},
                                           AnswerOf(done));
  if (attempt == nullptr) return;
  if (!wanted.spec.template_id.empty()) return MakeOfTemplate(wanted, attempt);
  wanted.spec.extensions.contains(kPoolRef) ? MakeOfPool(wanted, attempt) : Make(wanted, attempt);
}

void Lifecycle::Make(const Wanted& wanted, const SharedAttempt& attempt) {
  std::optional<Snapshot> snapshot;
  if (!wanted.spec.snapshot_id.empty()) {
    auto usable = snapshots_.Usable(wanted.spec.snapshot_id);
    if (!usable) {
      CreateError refused(std::move(usable).error());
      refused.snapshot = true;
      return attempt->Fail(refused);
    }
    snapshot = std::move(*usable);
  }
  const Snapshot* const restored = snapshot ? &*snapshot : nullptr;
  if (Status allowed = CheckImage(wanted.spec, restored); !allowed) {
    CreateError refused(std::move(allowed).error());
    refused.image = true;
    return attempt->Fail(refused);
  }
  auto volumes = objects_.Resolve(wanted.mounts);
  if (!volumes) {
    return attempt->Fail(CreateError(std::move(volumes).error(), wire::Volume::Kind::kObjects));
  }
  auto checked = Check(wanted, restored);
  if (!checked) return attempt->Fail(CreateError(std::move(checked).error()));
  if (!volumes->empty()) checked->sandbox.spec.volumes = std::move(*volumes);
  Acquire(std::move(*checked), wanted, attempt);
}

Status Lifecycle::CheckImage(const Spec& spec, const Snapshot* snapshot) const {
  if (snapshot != nullptr) {
    return images::CheckAllowed(config_.allowed_images, snapshot->image, snapshot->image_digest);
  }
  if (const auto image = images_.Find(spec.image)) {
    return images::CheckAllowed(config_.allowed_images, image->name, image->digest);
  }
  const auto name = images::NormaliseImageName(spec.image);
  // What is no name is refused as such.
  return name ? images::CheckAllowed(config_.allowed_images, *name, "") : Status();
}

Result<Lifecycle::Checked> Lifecycle::Check(const Wanted& wanted, const Snapshot* snapshot) const {
  ATOLL_TRY(CheckArguments(wanted.spec));
  Checked checked;
  Sandbox& s = checked.sandbox;
  s.id = NewSandboxId();
  s.spec = wanted.spec;
  s.spec.network.sandbox = s.id;
  s.reason = "CONTAINER_STARTING";
  s.message = "Sandbox is being built";
  s.metadata = wanted.metadata;
  if (snapshot != nullptr) {
    ATOLL_TRY(UseSnapshot(s, *snapshot));
  } else if (auto image = images_.Find(s.spec.image)) {
    ATOLL_TRY(UseImage(s, std::move(*image)));
  } else {
    ATOLL_ASSIGN(checked.awaited_image, AwaitedImage(s.spec.image, image.error()));
    s.spec.image = checked.awaited_image;
    s.reason = "IMAGE_IMPORTING";
    s.message = "Its image is being imported";
  }
  ATOLL_TRY(CheckEnvironment(s));
  ATOLL_ASSIGN(s.spec.limits, cgroup::ParseLimits(wanted.resource_limits, config_.defaults,
                                                  config_.limits_available));
  ATOLL_ASSIGN(s.spec.reserved, ParseReservation(wanted.resource_requests, s.spec.limits));
  ATOLL_TRY(SetTerms(wanted, s));
  if (config_.access_tokens) s.access_token = NewAccessToken();
  if (wanted.secure_access) s.secure_token = NewAccessToken();
  if (wanted.credential_proxy) {
    if (s.spec.readonly_root) {
      return Fail(
          Code::kInvalidArgument,
          "credentialProxy: the certificate that the sandbox is to believe is a file in it, "
          "which a root file system that is read-only cannot have");
    }
    ATOLL_ASSIGN(s.authority, intercept::MakeAuthority(s.id));
  }
  return checked;
}

Status Lifecycle::SetTerms(const Wanted& wanted, Sandbox& s) const {
  if (!s.spec.idle) s.spec.idle = config_.idle;
  if (s.spec.idle->after_seconds == 0) s.spec.idle.reset();
  ATOLL_TRY(CheckReclaim(s.spec));
  ATOLL_TRY(CheckBudget(config_.budget, held_, s.spec));
  s.created_at_ms = s.transition_at_ms = clock_.UnixMillis();
  if (wanted.timeout_seconds) {
    ATOLL_ASSIGN(s.expires_at_ms,
                 DeadlineOf(*wanted.timeout_seconds, s.created_at_ms, config_.max_timeout_seconds));
  }
  ATOLL_TRY(network_.CheckRequest(s.spec.network));
  return CheckName(s);
}

Status Lifecycle::UseImage(Sandbox& s, images::Image image) const {
  // Of one that was waited for, the digest is known only now.
  ATOLL_TRY(images::CheckAllowed(config_.allowed_images, image.name, image.digest));
  ATOLL_TRY(
      CheckPlatform(s.spec.platform, image.config.architecture, image.name, config_.host_arch));
  s.spec.image = std::move(image.name);
  s.image_digest = std::move(image.digest);
  s.layers = std::move(image.layers);
  s.config = std::move(image.config);
  return {};
}

Status Lifecycle::UseSnapshot(Sandbox& s, const Snapshot& snapshot) const {
  ATOLL_TRY(CheckPlatform(s.spec.platform, snapshot.config.architecture, snapshot.image,
                          config_.host_arch));
  s.spec.image = snapshot.image;
  s.image_digest = snapshot.image_digest;
  s.layers = snapshot.layers;
  s.config = snapshot.config;
  // The request's own win.
  s.metadata.insert(snapshot.metadata.begin(), snapshot.metadata.end());
  if (s.metadata.size() > kMaxMetadata) {
    return Fail(Code::kInvalidArgument, "metadata has " + std::to_string(s.metadata.size()) +
                                            " entries with those of the snapshot: at most " +
                                            std::to_string(kMaxMetadata) + " are kept");
  }
  return {};
}

Status Lifecycle::CheckName(const Sandbox& sandbox) const {
  if (!sandbox.spec.unique_name) return {};
  const auto name = sandbox.metadata.find(kName);
  if (name == sandbox.metadata.end()) return {};
  for (const std::string& id : names_.Find(name->second)) {
    if (id == sandbox.id || IsLeaving(entries_.at(id).sandbox.state)) continue;
    return Fail(Code::kAlreadyExists, "the name '" + name->second + "' is taken by sandbox " + id +
                                          "; delete that one or choose another name");
  }
  return {};
}

Result<std::string> Lifecycle::AwaitedImage(const std::string& name, const Error& missing) const {
  if (missing.code() != Code::kNotFound) return Fail(missing);
  ATOLL_ASSIGN(std::string image, images::NormaliseImageName(name));
  if (!imports_.IsRunning(image)) {
    if (!puller_.MayPull(image)) return Fail(missing);
    ATOLL_TRY(puller_.CheckRoom());
  }
  ATOLL_TRY(imports_.CheckRoom());
  return image;
}

void Lifecycle::Acquire(Checked checked, const Wanted& wanted, const SharedAttempt& attempt) {
  // From here to its claim nothing waits, so that nobody but us has to give it back.
  std::unique_ptr<ParkedSandbox> parked = Claim(checked, wanted);
  const std::string id = checked.sandbox.id;
  Entry& entry = entries_[id];
  entry.sandbox = std::move(checked.sandbox);
  names_.Add(entry.sandbox);
  Hold(entry.sandbox);
  pools_.Hold(entry.sandbox);
  attempt->Take(id);
  entry.attempt = attempt;
  entry.origin = parked ? Origin::kPool : attempt->request().origin;
  entry.launch = std::make_shared<Launch>(
      launch_parts_, Launch::Order{id, wanted.request_id, std::move(checked.awaited_image),
                                   wanted.registry_as, std::move(parked)});
  if (!entry.sandbox.stocked) GiveWay();
  objects_.Keep(id, wanted.mounts);
  HaveVolumes(id, wanted.mounts);
}

void Lifecycle::HaveVolumes(const std::string& id, const std::vector<VolumeMount>& mounts) {
  if (mounts.empty()) return Acquired(id);
  volumes_.Acquire(id, mounts, [this, id](Status acquired, wire::Volume::Kind failed) {
    if (acquired) return Acquired(id);
    if (Entry* refused = Look(id))
      Refuse(*refused, CreateError(std::move(acquired).error(), failed));
  });
}

void Lifecycle::Acquired(const std::string& id) {
  Entry* entry = Look(id);
  if (entry == nullptr) return volumes_.Release(id);
  if (stopping_) {
    return Refuse(*entry, CreateError(Error(Code::kUnavailable, "atolld is shutting down")));
  }
  Event event = Event::kAdmitted;
  if (const std::string& image = entry->launch->order().awaited_image; !image.empty()) {
    PullUnlessThere(image, *entry->launch);
    if (imports_.IsRunning(image)) {
      event = Event::kMustWait;
    } else if (Status there = TakeImage(*entry); !there) {
      return Refuse(*entry, CreateError(std::move(there).error()));
    }
  }
  if (Status recorded = Apply(*entry, event, {}); !recorded) {
    Failed(id, std::move(recorded).error().Wrap("record the new sandbox"));
  }
}

// All that wait for one image share its pull, whoever asked first.
void Lifecycle::PullUnlessThere(const std::string& image, Launch& launch) {
  images::Credentials credentials = launch.TakeCredentials();
  if (imports_.IsRunning(image) || images_.Find(image) || !puller_.MayPull(image)) return;
  const auto pending = std::make_shared<PendingImports::Id>();
  auto progress =
      puller_.Pull(image, std::move(credentials),
                   [this, pending](const Status& pulled) { imports_.End(*pending, pulled); });
  *pending = imports_.Begin(image, std::move(progress));
}

void Lifecycle::AwaitImage(Entry& entry) {
  volumes_.Keep(entry.sandbox.id);
  Note(entry.sandbox, std::string(StateName(entry.sandbox.state)));
  SetDeadline(entry);
  entry.launch->WaitForImage();
  Acknowledge(entry);
}

void Lifecycle::Progress(const std::string& id, const std::string& text) {
  if (Entry* entry = Look(id)) entry->sandbox.message = text;
}

Status Lifecycle::TakeImage(Entry& entry) {
  ATOLL_ASSIGN(images::Image image, images_.Find(entry.launch->order().awaited_image));
  ATOLL_TRY(UseImage(entry.sandbox, std::move(image)));
  // What holds already did so without them.
  if (Holds(entry.sandbox.state)) {
    for (wire::LayerId layer : entry.sandbox.layers) ++layer_users_[layer];
  }
  return {};
}

void Lifecycle::Imported(const std::string& id, const Status& imported) {
  Entry* entry = Look(id);
  if (entry == nullptr || entry->sandbox.state != State::kAwaiting) return;
  const std::string image = entry->launch->order().awaited_image;
  Status usable = TakeImage(*entry);
  // Others have been promised memory meanwhile.
  if (usable) usable = CheckBudget(config_.budget, held_, entry->sandbox.spec);
  // Without the import another image of that name would do as well; without either it is the
  // import that is to blame.
  if (!usable && !imported) {
    usable = Fail(Error(imported.error()).Wrap("image " + image + " was not imported"));
  }
  if (!usable) return Failed(id, std::move(usable).error());
  ApplyAnyway(*entry, Event::kImported, {"CONTAINER_STARTING", "Sandbox is being built"});
  GiveWay();
}

Result<const Sandbox*> Lifecycle::Begin(const std::string& host_id, uint32_t slot) {
  if (Rollback* const rollback = FindRollback(host_id)) return BeginRollback(*rollback, slot);
  Entry* entry = LookHost(host_id);
  if (entry == nullptr || entry->sandbox.state != State::kQueued) {
    return Fail(Code::kFailedPrecondition, "deleted before it was built");
  }
  ATOLL_TRY(network_.ClaimSlot(slot, entry->sandbox.spec.network));
  vaults_.Attach(entry->sandbox.id, slot);
  entry->sandbox.slot = slot;
  ApplyAnyway(*entry, Event::kBegun, {});
  return &entry->sandbox;
}

const Sandbox* Lifecycle::Begun(const std::string& host_id) {
  if (Rollback* const rollback = FindRollback(host_id)) return &rollback->next;
  const Entry* entry = LookHost(host_id);
  return entry != nullptr && entry->sandbox.state == State::kBuilding ? &entry->sandbox : nullptr;
}

void Lifecycle::SlotLost(const std::string& host_id) {
  ::unlink(SocketPath(config_.socket_directory, host_id).c_str());
  if (Rollback* const rollback = FindRollback(host_id)) {
    rollback->next.slot = 0;
    rollback->next.state = State::kQueued;
    return;
  }
  Entry* entry = LookHost(host_id);
  if (entry == nullptr) return;
  entry->sandbox.slot = 0;
  ApplyAnyway(*entry, Event::kSlotLost, {});
}

void Lifecycle::Built(const std::string& host_id, const wire::Built& built) {
  if (FindRollback(host_id) != nullptr) return RollbackBuilt(host_id);
  Entry* entry = LookHost(host_id);
  if (entry == nullptr) return;
  for (auto i = static_cast<size_t>(wire::kFirstBuildStep); i < built.micros.size(); ++i) {
    stats_.step_seconds[i].Record(built.micros[i] / 1e6, kStepBounds);
  }
  if (entry->fork && !entry->fork->attempt->over()) return ChildBuilt(*entry);
  if (Status recorded = Apply(*entry, Event::kBuilt, {"CONTAINER_RUNNING", "Sandbox is running"});
      !recorded) {
    Failed(host_id, std::move(recorded).error().Wrap("record the new sandbox"));
  }
}

void Lifecycle::Failed(const std::string& host_id, Error error) {
  NotCreated(host_id, CreateError(std::move(error)));
}

void Lifecycle::NotMounted(const std::string& host_id, Error error) {
  NotCreated(host_id, CreateError(std::move(error), wire::Volume::Kind::kObjects));
}

void Lifecycle::NotCreated(const std::string& host_id, const CreateError& error) {
  if (const Rollback* const rollback = FindRollback(host_id)) {
    const SharedAttempt attempt = rollback->attempt;
    return attempt->Fail(error);
  }
  if (Entry* entry = LookHost(host_id)) Refuse(*entry, error);
}

void Lifecycle::Refuse(Entry& entry, const CreateError& error) {
  const Cause cause{"PROVISIONING_ERROR",
                    WithoutPaths(error.message(), config_.private_directories)};
  if (IsRecorded(entry)) {
    LogLine(LogLevel::kWarning, "cannot create a sandbox")
        .Add("sandbox", entry.sandbox.id)
        .Add("request", entry.launch->order().request_id)
        .Add(error);
    ++stats_.creates[static_cast<size_t>(entry.origin)].error;
    Settle(entry, Fail(error));
    return ApplyAnyway(entry, Event::kGivenUp, cause);
  }
  const SharedAttempt attempt = entry.attempt;
  // Another child of its fork has failed before, or a client has deleted it.
  attempt->over() ? Abandon(entry, cause) : attempt->Fail(error);
}

void Lifecycle::Published(Entry& entry) {
  const std::string id = entry.sandbox.id;
  const std::shared_ptr<Launch> launch = entry.launch;
  volumes_.Keep(id);
  // The answer first: whatever comes is news about a sandbox that the client knows.
  Acknowledge(entry);
  Settle(entry, {});
  SetDeadline(entry);
  launch->Watch();
  if (entry.sandbox.stocked) {
    MemberRuns(id);
  } else if (launch->order().awaited_image.empty()) {
    CountCreated(entry.origin, clock_.BootMicros() - launch->asked_us());
  } else {
    ++stats_.creates[static_cast<size_t>(entry.origin)].ok;
  }
  if (const auto exit = launch->TakeExit()) OnExit(*exit);
}

void Lifecycle::CountCreated(Origin origin, int64_t took_us) {
  CreateStats& stats = stats_.creates[static_cast<size_t>(origin)];
  ++stats.ok;
  stats.seconds.Record(static_cast<double>(took_us) / 1e6, kSecondsBounds);
}

void Lifecycle::GiveWay() {
  slots_.GiveWay();
  pools_.GiveWay();
  templates_.GiveWay();
}

}  // namespace atl::sandbox
