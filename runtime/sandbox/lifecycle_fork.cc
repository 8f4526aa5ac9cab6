// Forks: one copy of what a sandbox has written becomes a layer, and the children are creates that
// stand on it. They hold the layer like every other: when the last of them has gone, so does it.
//
// Each is launched as any create, but for its record: a child that is built waits until all are,
// and their records are one transaction. So a daemon that dies finds all of them or, without a
// record, none.
#include <utility>

#include "images/allowed.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/create/access_token.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

void Lifecycle::ForkSandbox(const std::string& id, const WantedFork& wanted, const Forked& done) {
  const SharedAttempt attempt = NewAttempt({.kind = Attempt::Kind::kFork,
                                            .key = wanted.idempotency_key,
                                            .fingerprint = wanted.fingerprint,
                                            .request_id = wanted.request_id,
                                            .of = id,
                                            .origin = Origin::kFork},
                                           [this, done](const Attempt::Outcome& outcome) {
                                             if (!outcome)
                                               return done(tl::unexpected(outcome.error()));
                                             done(ChildrenOf(*outcome));
                                           });
  if (attempt == nullptr) return;
  auto children = CheckFork(id, wanted.count);
  if (!children) {
    CreateError refused(std::move(children).error());
    refused.image = refused.code() == Code::kPermissionDenied;
    return attempt->Fail(refused);
  }
  const auto layer = images_.ReserveLayer();
  if (!layer) return attempt->Fail(CreateError(layer.error()));
  const auto fork = std::make_shared<Fork>();
  fork->parent = id;
  fork->attempt = attempt;
  fork->use = Use(id);
  for (Sandbox& child : *children) {
    child.layers.insert(child.layers.begin(), *layer);
    child.fork_layer = *layer;
    AddChild(fork, std::move(child));
  }
  GiveWay();
  // Nothing of it outlives the host, as no sandbox does.
  snapshots_.Start(
      {.sandbox = HostIdOf(id),
       .layer = *layer,
       .name = "fork:" + attempt->sandboxes().front(),
       .lasting = false,
       .done = [this, fork, alive = std::weak_ptr(alive_)](const Result<uint64_t>& bytes) {
         if (!alive.expired()) LaunchChildren(fork, bytes);
       }});
}

std::vector<Sandbox> Lifecycle::ChildrenOf(const std::vector<std::string>& ids) {
  std::vector<Sandbox> children;
  for (const std::string& id : ids) {
    if (const Entry* const entry = Look(id)) children.push_back(entry->sandbox);
  }
  if (children.size() != 1) return children;
  // Earlier releases have recorded the first child alone with a key.
  for (const Sandbox* const other : All()) {
    const Sandbox& first = children.front();
    if (other->fork_layer == first.fork_layer && other->id != first.id) children.push_back(*other);
  }
  return children;
}

Result<std::vector<Sandbox>> Lifecycle::CheckFork(const std::string& id, size_t count) {
  ATOLL_ASSIGN(const Entry* entry, Visible(id));
  const Sandbox& parent = entry->sandbox;
  if (!IsLive(parent.state)) {
    return Fail(Code::kFailedPrecondition, "sandbox " + id + " is " +
                                               std::string(StateName(parent.state)) +
                                               ": one that runs or is paused can be forked");
  }
  if (parent.layers.size() >= wire::kMaxLayers) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " is made of " + std::to_string(parent.layers.size()) +
                    " layers, those of its forks and snapshots included, and no root takes more");
  }
  ATOLL_TRY(images::CheckAllowed(config_.allowed_images, parent.spec.image, parent.image_digest));
  ATOLL_TRY(snapshots_.CheckBytes());
  ATOLL_TRY(objects_.Check(parent));
  Held held = held_;
  std::vector<Sandbox> children(count, parent);
  for (Sandbox& child : children) {
    child.id = child.spec.network.sandbox = NewSandboxId();
    child.host_id.clear();
    // It needs the layers of that one, which are its own, and not the snapshot.
    child.spec.snapshot_id.clear();
    // That of the parent alone.
    if (std::exchange(child.spec.unique_name, false)) {
      child.metadata.erase(kName);
      child.spec.extensions.erase(kUniqueName);
    }
    // It was not made of its parent's pool, and does not count there.
    child.spec.extensions.erase(kPoolRef);
    ATOLL_TRY(CheckBudget(config_.budget, held, child.spec));
    ATOLL_TRY(network_.CheckRequest(child.spec.network));
    held.Add(child.spec);
    child.created_at_ms = child.transition_at_ms = clock_.UnixMillis();
    child.state = State::kAcquiring;
    child.reason = "CONTAINER_STARTING";
    child.message = "Sandbox is being forked from " + id;
    child.slot = 0;
    child.access_token = config_.access_tokens ? NewAccessToken() : "";
    if (!parent.secure_token.empty()) child.secure_token = NewAccessToken();
    if (!parent.authority.empty()) {
      ATOLL_ASSIGN(child.authority, intercept::MakeAuthority(child.id));
    }
  }
  return children;
}

void Lifecycle::AddChild(const std::shared_ptr<Fork>& fork, Sandbox child) {
  const std::string id = child.id;
  fork->attempt->Take(id);
  Entry& entry = entries_[id];
  entry.sandbox = std::move(child);
  names_.Add(entry.sandbox);
  entry.attempt = fork->attempt;
  entry.fork = fork;
  entry.origin = Origin::kFork;
  objects_.Share(fork->parent, id);
  Hold(entry.sandbox);
  entry.launch = std::make_shared<Launch>(
      launch_parts_, Launch::Order{.id = id, .request_id = fork->attempt->request().request_id});
}

void Lifecycle::LaunchChildren(const std::shared_ptr<Fork>& fork, const Result<uint64_t>& bytes) {
  Attempt& attempt = *fork->attempt;
  if (!bytes) return attempt.Fail(CreateError(bytes.error()));
  for (const std::string& id : attempt.sandboxes()) {
    const Entry* child = attempt.over() ? nullptr : Look(id);
    if (child == nullptr) return;
    // Its parent's volumes are there, and not its own to make or to delete.
    std::vector<VolumeMount> mounts;
    for (const wire::Volume& volume : child->sandbox.spec.volumes) {
      mounts.push_back({.volume = volume, .create_if_missing = false});
    }
    HaveVolumes(id, mounts);
  }
}

void Lifecycle::ChildBuilt(Entry& child) {
  const std::shared_ptr<Fork> fork = child.fork;
  Attempt& attempt = *fork->attempt;
  const std::vector<std::string>& children = attempt.sandboxes();
  fork->built.insert(child.sandbox.id);
  if (fork->built.size() < children.size()) return;
  const Cause running{"CONTAINER_RUNNING", "Sandbox is running"};
  std::vector<Sandbox> records;
  for (const std::string& id : children) {
    const Entry* entry = Look(id);
    if (entry == nullptr || entry->sandbox.state != State::kBuilding) {
      return attempt.Fail(CreateError(
          Error(Code::kFailedPrecondition, "sandbox " + id + " was deleted while it was created")));
    }
    Enter(records.emplace_back(entry->sandbox), State::kRunning, running);
  }
  if (Status recorded = store_.Insert(records, attempt.key()); !recorded) {
    return attempt.Fail(CreateError(std::move(recorded).error().Wrap("record the new sandboxes")));
  }
  attempt.Commit();
  for (const std::string& id : children) {
    Entry& entry = *Look(id);
    entry.fork.reset();
    entry.attempt.reset();
    ApplyAnyway(entry, Event::kBuilt, running);
  }
  LogLine(LogLevel::kInfo, "sandbox forked")
      .Add("sandbox", fork->parent)
      .Add("children", static_cast<uint64_t>(children.size()));
  attempt.Answer();
}

}  // namespace atl::sandbox
