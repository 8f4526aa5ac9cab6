#include "runtime/sandbox/create/check.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cgroup/limits_text.h"
#include "images/allowed.h"
#include "netpolicy/intercept/authority.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/create/access_token.h"
#include "runtime/sandbox/record/environment.h"
#include "runtime/wire/guard.h"

namespace atl::sandbox {
namespace {

// Limits of execve(2): a string may have 32 pages. All strings share a quarter of the stack limit
// with the commands that clients run later.
constexpr size_t kMaxArgument = 128 << 10;
constexpr size_t kMaxArguments = 512 << 10;
// The end of the year 9999, the last time that RFC 3339 can write.
constexpr int64_t kLastMoment = 253402300799000;

Status CheckArguments(const Spec& spec) {
  size_t total = 0;
  const auto check = [&](const std::string& what, size_t size) -> Status {
    total += size;
    if (size >= kMaxArgument) {
      return Fail(Code::kInvalidArgument, what + " is " + std::to_string(size) +
                                              " bytes long, more than " +
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
      return Fail(
          Code::kInvalidArgument,
          "env '" + name.substr(0, 64) +
              "': a name must not be empty or contain '='; names and values must not contain NUL");
    }
    ATOLL_TRY(check("env " + name.substr(0, 64), name.size() + value.size() + 1));
  }
  if (total > kMaxArguments) {
    return Fail(Code::kInvalidArgument, "entrypoint, env and lifecycle are " +
                                            std::to_string(total) + " bytes together, more than " +
                                            std::to_string(kMaxArguments));
  }
  return {};
}

// A snapshot inherits the variables of all sandboxes before it, so the environment may grow.
Status CheckEnvironment(const Sandbox& sandbox) {
  size_t total = 0;
  for (const std::string& variable : EnvironmentOf(sandbox)) total += variable.size() + 1;
  if (total <= kMaxArguments) return {};
  return Fail(Code::kInvalidArgument,
              "env is " + std::to_string(total) +
                  " bytes with that of the image or the snapshot, more than " +
                  std::to_string(kMaxArguments));
}

// Parses "cpu" and "memory". Refuses a request above the limit of the same resource, because the
// sandbox could never use more.
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
                                              "': only cpu and memory can be reserved");
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

// Returns the deadline.
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

// Returns the seconds until a deadline; none for no deadline.
std::optional<int64_t> SecondsUntil(std::optional<int64_t> deadline_ms, int64_t now_ms) {
  if (!deadline_ms) return std::nullopt;
  return (*deadline_ms - now_ms) / 1000;
}

// GPUs are for sandboxes with a client.
Status HasNoGpu(const std::map<std::string, std::string>& resource_limits, const char* what) {
  if (!resource_limits.contains(kGpu)) return {};
  return Fail(Code::kInvalidArgument, std::string("resourceLimits.gpu: sandboxes of a ") + what +
                                          " have no GPU; ask for it in a create");
}

// The texts about the host's room say what the sandboxes of all tenants have together.
Status ForTenant(const std::string& tenant, Status room) {
  if (room || tenant.empty()) return room;
  const Error& why = room.error();
  if (why.code() != Code::kResourceExhausted || why.error_number() != ENOMEM) return room;
  return Fail(Error(Code::kResourceExhausted,
                    "this host has no room for another such sandbox now; try again later, ask for "
                    "less, or delete some",
                    ENOMEM));
}

CreateError RefusedIsolation(const Error& error) {
  CreateError refused(error);
  refused.isolation = true;
  return refused;
}

Wanted WantedOf(const TemplateRecord& record) {
  Wanted wanted;
  wanted.spec.image = record.image;
  wanted.spec.template_id = record.id;
  wanted.spec.entrypoint = record.entrypoint;
  wanted.spec.env = record.env;
  wanted.resource_limits = record.resource_limits;
  return wanted;
}

// Ahead of the build, which looks at where links of the image lead, too.
Status CheckTargets(const Spec& spec) {
  if (TierOf(spec) != wire::kGvisorTier) return {};
  const std::string own = wire::kGuardedDirectory;
  for (const wire::Volume& volume : spec.volumes) {
    if (volume.target != own && !volume.target.starts_with(own + "/")) continue;
    return Fail(Code::kInvalidArgument,
                volume.target + ": no volume can be at " + own + " with isolation gvisor");
  }
  return {};
}

}  // namespace

tl::expected<Checked, CreateError> Check::Create(const tenants::Caller& caller,
                                                 const Wanted& wanted) const {
  std::optional<Snapshot> snapshot;
  if (!wanted.spec.snapshot_id.empty()) {
    auto usable = parts_.snapshots.Usable(caller, wanted.spec.snapshot_id);
    if (!usable) {
      CreateError refused(std::move(usable).error());
      refused.snapshot = true;
      return tl::unexpected(std::move(refused));
    }
    snapshot = std::move(*usable);
  }
  const Snapshot* const restored = snapshot ? &*snapshot : nullptr;
  if (Status allowed = AllowedImage(caller, wanted.spec.image, restored); !allowed) {
    CreateError refused(std::move(allowed).error());
    refused.image = true;
    return tl::unexpected(std::move(refused));
  }
  if (const auto tier = isolation_.Choose(wanted.isolation); !tier) {
    return tl::unexpected(RefusedIsolation(tier.error()));
  }
  const tenants::SharedTenant tenant =
      caller.tenant.empty() ? nullptr : parts_.tenants.Find(caller.tenant);
  auto volumes = parts_.objects.Resolve(caller, tenant.get(), wanted.mounts);
  if (!volumes) {
    return tl::unexpected(CreateError(std::move(volumes).error(), wire::Volume::Kind::kObjects));
  }
  auto checked = Whole(caller, caller.tenant, wanted, restored);
  if (!checked) return tl::unexpected(CreateError(std::move(checked).error()));
  if (!volumes->empty()) checked->sandbox.spec.volumes = std::move(*volumes);
  if (Status targets = CheckTargets(checked->sandbox.spec); !targets) {
    return tl::unexpected(CreateError(std::move(targets).error()));
  }
  return *std::move(checked);
}

Status Check::AllowedImage(const tenants::Caller& caller, const std::string& image,
                           const Snapshot* snapshot) const {
  const SharedTerms terms = parts_.terms.Of(caller.tenant, caller);
  if (snapshot != nullptr) return CheckImage(terms, snapshot->image, snapshot->image_digest);
  if (const auto found = parts_.images.Find(caller, image)) {
    return CheckImage(terms, found->name, found->digest);
  }
  const auto name = images::NormaliseImageName(image);
  // The image look-up refuses an invalid name, with the right error.
  return name ? CheckImage(terms, *name, "") : Status();
}

Status Check::Ahead(const tenants::Caller& caller, const std::string& image,
                    const std::map<std::string, std::string>& resource_limits,
                    uint64_t members) const {
  const SharedTerms terms = parts_.terms.Of(caller.tenant, caller);
  if (terms == nullptr) return {};
  ATOLL_TRY(AllowedImage(caller, image, nullptr));
  ATOLL_ASSIGN(const cgroup::Limits limits, LimitsOf(resource_limits));
  return CheckPoolSize(terms, members,
                       {.sandboxes = 1,
                        .cpu_millis = limits.cpu_millis,
                        .memory_bytes = limits.memory_bytes,
                        .disk_bytes = limits.disk_bytes});
}

Status Check::CheckStock(const std::string& tenant, const Spec& member) const {
  return ForTenant(tenant, parts_.room.CheckStock(member, true));
}

Status Check::CheckMemberQuota(const std::string& tenant, const Sandbox& member) const {
  const SharedTerms terms = parts_.terms.Of(tenant);
  if (terms == nullptr) return {};
  Sandbox owned = member;
  owned.tenant = tenant;
  return CheckRoom(owned, terms, 1);
}

Status Check::CheckImage(const SharedTerms& terms, const std::string& name,
                         std::string_view digest) const {
  ATOLL_TRY(images::CheckAllowed(settings_.allowed_images, name, digest));
  return terms ? terms->CheckImage(name, digest) : Status();
}

Result<Checked> Check::Whole(const tenants::Caller& caller, const std::string& owner,
                             const Wanted& wanted, const Snapshot* snapshot) const {
  ATOLL_TRY(CheckArguments(wanted.spec));
  Checked checked;
  checked.narrowing = caller.narrowing;
  Sandbox& s = checked.sandbox;
  s.id = NewSandboxId();
  s.tenant = owner;
  s.spec = wanted.spec;
  ATOLL_TRY(SetTier(wanted.isolation, s.spec));
  s.spec.network.sandbox = s.id;
  s.spec.network.tenant = s.tenant;
  s.reason = "CONTAINER_STARTING";
  s.message = "Sandbox is being built";
  s.metadata = wanted.metadata;
  if (snapshot != nullptr) {
    ATOLL_TRY(UseSnapshot(s, *snapshot));
  } else if (auto image = parts_.images.Find(caller, s.spec.image)) {
    checked.image_owner = image->tenant;
    ATOLL_TRY(Image(s, std::move(*image)));
  } else {
    if (image.error().code() != Code::kNotFound) return Fail(image.error());
    ATOLL_ASSIGN(s.spec.image, images::NormaliseImageName(s.spec.image));
    ATOLL_ASSIGN(checked.awaited_image, AwaitedImage(caller, s.spec.image, image.error()));
    checked.names_of = caller.tenant;
    s.reason = "IMAGE_IMPORTING";
    s.message = "Its image is being imported";
  }
  ATOLL_TRY(CheckEnvironment(s));
  std::map<std::string, std::string> limits = wanted.resource_limits;
  ATOLL_ASSIGN(const size_t gpus, gpus_.Parse(&limits));
  ATOLL_ASSIGN(s.spec.limits, LimitsOf(limits));
  ATOLL_TRY(CheckMemory(s.spec));
  ATOLL_ASSIGN(s.spec.reserved, ParseReservation(wanted.resource_requests, s.spec.limits));
  // The quota comes before the choice of devices: a tenant that has its share should not come
  // again.
  s.devices.resize(gpus);
  ATOLL_TRY(SetTerms(caller, wanted, s));
  if (settings_.access_tokens) s.access_token = NewAccessToken();
  if (wanted.secure_access) s.secure_token = NewAccessToken();
  if (wanted.credential_proxy) {
    if (s.spec.readonly_root) {
      return Fail(Code::kInvalidArgument,
                  "credentialProxy: Atoll must write a certificate into the sandbox, which a "
                  "read-only root file system does not allow");
    }
    ATOLL_ASSIGN(s.authority, intercept::MakeAuthority(s.id));
  }
  ATOLL_TRY(gpus_.Give(gpus, {}, s));
  return checked;
}

Status Check::CheckMemory(const Spec& spec) {
  const uint64_t least = wire::LeastMemoryOf(TierOf(spec));
  if (spec.limits.memory_bytes == 0 || spec.limits.memory_bytes >= least) return {};
  return Fail(Code::kInvalidArgument, "resourceLimits.memory: a sandbox with isolation " +
                                          TierOf(spec) + " needs at least " +
                                          std::to_string(least >> 20) + "Mi");
}

Result<cgroup::Limits> Check::LimitsOf(const std::map<std::string, std::string>& asked) const {
  return cgroup::ParseLimits(asked, settings_.defaults, settings_.limits_available);
}

Status Check::SetTier(const std::string& asked, Spec& spec) const {
  ATOLL_ASSIGN(spec.isolation, isolation_.Choose(asked));
  if (spec.isolation == wire::kNamespaceTier) spec.isolation.clear();
  return {};
}

Status Check::SetTerms(const tenants::Caller& caller, const Wanted& wanted, Sandbox& s) const {
  const SharedTerms terms = parts_.terms.Of(s.tenant, caller);
  if (terms) {
    ATOLL_TRY(terms->CheckLifetime(wanted.timeout_seconds));
    ATOLL_TRY(terms->CheckPolicy(s.spec.network.policy));
  }
  ATOLL_TRY(Idle(s.spec));
  ATOLL_TRY(Reclaim(s.spec));
  ATOLL_TRY(CheckRoom(s, terms, 1));
  s.created_at_ms = s.transition_at_ms = parts_.clock.UnixMillis();
  if (wanted.timeout_seconds) {
    ATOLL_ASSIGN(s.expires_at_ms, DeadlineOf(*wanted.timeout_seconds, s.created_at_ms,
                                             settings_.max_timeout_seconds));
  }
  ATOLL_TRY(parts_.network.CheckRequest(s.spec.network));
  return parts_.registry.CheckName(s);
}

Status Check::CheckRoom(const Sandbox& asked, const SharedTerms& terms, size_t count) const {
  return ForTenant(asked.tenant, parts_.room.Check(asked, terms, count));
}

Status Check::Image(Sandbox& s, images::Image image) const {
  // The digest of an awaited image is known only now.
  ATOLL_TRY(CheckImage(parts_.terms.Of(s.tenant), image.name, image.digest));
  ATOLL_TRY(
      CheckPlatform(s.spec.platform, image.config.architecture, image.name, settings_.host_arch));
  s.spec.image = std::move(image.name);
  s.image_digest = std::move(image.digest);
  s.layers = std::move(image.layers);
  s.config = std::move(image.config);
  return {};
}

Status Check::UseSnapshot(Sandbox& s, const Snapshot& snapshot) const {
  ATOLL_TRY(CheckPlatform(s.spec.platform, snapshot.config.architecture, snapshot.image,
                          settings_.host_arch));
  s.spec.image = snapshot.image;
  s.image_digest = snapshot.image_digest;
  s.layers = snapshot.layers;
  s.config = snapshot.config;
  // The request's labels win over the snapshot's.
  s.metadata.insert(snapshot.metadata.begin(), snapshot.metadata.end());
  if (s.metadata.size() > kMaxMetadata) {
    return Fail(Code::kInvalidArgument, "metadata has " + std::to_string(s.metadata.size()) +
                                            " entries with those of the snapshot; at most " +
                                            std::to_string(kMaxMetadata) + " are kept");
  }
  return {};
}

Result<std::string> Check::AwaitedImage(const tenants::Caller& caller, const std::string& name,
                                        const Error& missing) const {
  std::string own = images::ImageKey(caller.tenant, name);
  if (!parts_.imports.IsRunning(own)) {
    // An image of the host serves, too. Without tenants both keys are the same.
    const bool host_comes = !caller.tenant.empty() && parts_.imports.IsRunning(name);
    if (host_comes) {
      own = name;
    } else {
      if (!parts_.puller.MayPull(name)) return Fail(missing);
      ATOLL_TRY(parts_.puller.CheckRoom(caller));
    }
  }
  ATOLL_TRY(parts_.imports.CheckRoom(caller.tenant));
  return own;
}

Status Check::Idle(Spec& spec) const {
  // The operator's default applies where it can be kept. A client's explicit request is refused
  // where it cannot.
  const bool asked = spec.idle.has_value();
  if (!asked) spec.idle = settings_.idle;
  if (spec.idle->after_seconds == 0) spec.idle.reset();
  if (!spec.idle || spec.idle->ends || CheckStands(spec)) return {};
  if (!asked) {
    spec.idle.reset();
    return {};
  }
  return Fail(Code::kInvalidArgument,
              "extensions idle.after: sandboxes with isolation " + TierOf(spec) +
                  " cannot be paused; send idle.action 'end', or leave idle.after out");
}

Status Check::Reclaim(Spec& spec) const {
  // The operator's default applies where swap exists. A client's explicit request is refused where
  // it does not.
  if (!spec.reclaims && settings_.swap_bytes != 0) spec.reclaims = settings_.pause_reclaims;
  if (!spec.reclaims.value_or(false)) spec.reclaims.reset();
  if (!spec.reclaims || settings_.swap_bytes != 0) return {};
  return Fail(Code::kInvalidArgument,
              "extensions pause.memory 'reclaim': this host has no swap area for paused sandboxes; "
              "send 'keep', or have its operator set pause.swap_size and restart Atoll's spawner");
}

Result<Sandbox> Check::Claimed(const tenants::Caller& caller, const Wanted& wanted,
                               Sandbox member) const {
  ATOLL_TRY(isolation_.Choose(TierOf(member.spec)));
  member.stocked = false;
  member.tenant = member.spec.network.tenant = caller.tenant;
  member.metadata = wanted.metadata;
  member.spec.extensions = wanted.spec.extensions;
  member.spec.unique_name = wanted.spec.unique_name;
  member.spec.renew_by_seconds = wanted.spec.renew_by_seconds;
  member.spec.idle = wanted.spec.idle;
  member.spec.reclaims = wanted.spec.reclaims;
  member.spec.network.policy = wanted.spec.network.policy;
  const SharedTerms terms = parts_.terms.Of(member.tenant, caller);
  if (terms) ATOLL_TRY(terms->CheckImage(member.spec.image, member.image_digest));
  ATOLL_TRY(SetTerms(caller, wanted, member));
  return member;
}

Result<Checked> Check::Member(const TemplateRecord& record) const {
  ATOLL_TRY(HasNoGpu(record.resource_limits, "template"));
  // The template's tenant has given the name of the image. The member belongs to the host until its
  // claim.
  ATOLL_ASSIGN(Checked checked,
               Whole(tenants::Caller{.tenant = record.tenant}, "", WantedOf(record), nullptr));
  // A member waits for its claim paused.
  ATOLL_TRY(CheckStands(checked.sandbox.spec));
  // Whole has checked the terms of the host.
  ATOLL_TRY(CheckImage(parts_.terms.Of(record.tenant), checked.sandbox.spec.image,
                       checked.sandbox.image_digest));
  checked.sandbox.stocked = true;
  // Its program is the tenant's from the start, so its network is, too.
  checked.sandbox.spec.network.tenant = record.tenant;
  // An idle policy must not apply, because an unclaimed member is always idle.
  checked.sandbox.spec.idle.reset();
  return checked;
}

Result<Sandbox> Check::PoolMember(const PoolRecord& pool) const {
  Sandbox member;
  ATOLL_TRY(HasNoGpu(pool.resource_limits, "pool"));
  ATOLL_ASSIGN(images::Image image,
               parts_.images.Find(tenants::Caller{.tenant = pool.tenant}, pool.image));
  // The member belongs to the host until its claim, so Image does not know the tenant.
  ATOLL_TRY(CheckImage(parts_.terms.Of(pool.tenant), image.name, image.digest));
  ATOLL_TRY(Image(member, std::move(image)));
  ATOLL_TRY(SetTier("", member.spec));
  ATOLL_ASSIGN(member.spec.limits, LimitsOf(pool.resource_limits));
  ATOLL_TRY(CheckMemory(member.spec));
  return member;
}

tl::expected<std::vector<Sandbox>, CreateError> Check::Children(const tenants::Caller& caller,
                                                                const Sandbox& parent,
                                                                size_t count) const {
  if (IsLive(parent.state)) {
    if (auto allowed = StillAllowed(parent); !allowed) return tl::unexpected(allowed.error());
  }
  auto children = ChildrenOf(caller, parent, count);
  if (!children) {
    CreateError refused(std::move(children).error());
    refused.image = refused.code() == Code::kPermissionDenied;
    return tl::unexpected(std::move(refused));
  }
  return *std::move(children);
}

Result<std::vector<Sandbox>> Check::ChildrenOf(const tenants::Caller& caller, const Sandbox& parent,
                                               size_t count) const {
  const std::string& id = parent.id;
  if (!IsLive(parent.state)) {
    return Fail(Code::kFailedPrecondition, "sandbox " + id + " is " +
                                               std::string(StateName(parent.state)) +
                                               ": only a running or paused sandbox can be forked");
  }
  if (parent.layers.size() >= wire::kMaxLayers) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " is made of " + std::to_string(parent.layers.size()) +
                    " layers, including those of its forks and snapshots; a root cannot have more");
  }
  ATOLL_TRY(parts_.snapshots.CheckBytes());
  ATOLL_TRY(parts_.objects.Check(parent));
  const int64_t now_ms = parts_.clock.UnixMillis();
  const SharedTerms terms = parts_.terms.Of(parent.tenant, caller);
  if (terms) {
    ATOLL_TRY(terms->CheckImage(parent.spec.image, parent.image_digest));
    ATOLL_TRY(terms->CheckLifetime(SecondsUntil(parent.expires_at_ms, now_ms)));
  }
  ATOLL_TRY(CheckRoom(parent, terms, count));
  std::vector<Sandbox> children(count, parent);
  for (Sandbox& child : children) child.devices.clear();
  for (Sandbox& child : children) {
    // A device has one owner: each child gets others.
    ATOLL_TRY(gpus_.Give(parent.devices.size(), children, child));
    child.id = child.spec.network.sandbox = NewSandboxId();
    child.host_id.clear();
    // The child uses the parent's layers, which it holds itself, and not the snapshot.
    child.spec.snapshot_id.clear();
    // The unique name stays with the parent.
    if (std::exchange(child.spec.unique_name, false)) {
      child.metadata.erase(kName);
      child.spec.extensions.erase(kUniqueName);
    }
    // The child was not claimed from its parent's pool, so it must not count there.
    child.spec.extensions.erase(kPoolRef);
    ATOLL_TRY(parts_.network.CheckRequest(child.spec.network));
    child.created_at_ms = child.transition_at_ms = now_ms;
    child.state = State::kAcquiring;
    child.reason = "CONTAINER_STARTING";
    child.message = "Sandbox is being forked from " + id;
    child.slot = 0;
    child.access_token = settings_.access_tokens ? NewAccessToken() : "";
    if (!parent.secure_token.empty()) child.secure_token = NewAccessToken();
    if (!parent.authority.empty()) {
      ATOLL_ASSIGN(child.authority, intercept::MakeAuthority(child.id));
    }
  }
  return children;
}

tl::expected<void, CreateError> Check::StillAllowed(const Sandbox& sandbox) const {
  if (Status allowed =
          CheckImage(parts_.terms.Of(sandbox.tenant), sandbox.spec.image, sandbox.image_digest);
      !allowed) {
    CreateError refused(std::move(allowed).error());
    refused.image = refused.code() == Code::kPermissionDenied;
    return tl::unexpected(std::move(refused));
  }
  if (const auto tier = isolation_.Choose(TierOf(sandbox.spec)); !tier) {
    return tl::unexpected(RefusedIsolation(tier.error()));
  }
  return {};
}

}  // namespace atl::sandbox
