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
#include "runtime/sandbox/access_token.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

CreateError Refusal(Code code, const std::string& text) {
  return CreateError(Error(code, text));
}

}  // namespace

void Lifecycle::ForkSandbox(const std::string& id, const WantedFork& wanted, const Forked& done) {
  if (stopping_) {
    return done(tl::unexpected(Refusal(Code::kUnavailable, "atolld is shutting down")));
  }
  if (const KeyRecord* first = idempotency_.Find(wanted.idempotency_key)) {
    return RepeatFork(*first, wanted, done);
  }
  auto children = CheckFork(id, wanted.count);
  if (!children) {
    CreateError refused(std::move(children).error());
    refused.image = refused.code() == Code::kPermissionDenied;
    return done(tl::unexpected(std::move(refused)));
  }
  const auto layer = images_.ReserveLayer();
  if (!layer) return done(tl::unexpected(CreateError(layer.error())));
  const auto fork = std::make_shared<Fork>();
  fork->parent = id;
  fork->use = Use(id);
  fork->waiters.push_back(done);
  for (Sandbox& child : *children) {
    child.layers.insert(child.layers.begin(), *layer);
    child.fork_layer = *layer;
    AddChild(fork, std::move(child), wanted.request_id);
  }
  if (!wanted.idempotency_key.empty()) {
    fork->key = {wanted.idempotency_key, wanted.fingerprint, fork->children.front(),
                 clock_.UnixMillis()};
    idempotency_.Add(*fork->key);
  }
  GiveWay();
  // Nothing of it outlives the host, as no sandbox does.
  snapshots_.Start(
      {.sandbox = HostIdOf(id),
       .layer = *layer,
       .name = "fork:" + fork->children.front(),
       .lasting = false,
       .done = [this, fork, alive = std::weak_ptr(alive_)](const Result<uint64_t>& bytes) {
         if (!alive.expired()) LaunchChildren(fork, bytes);
       }});
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

void Lifecycle::AddChild(const std::shared_ptr<Fork>& fork, Sandbox child,
                         const std::string& request_id) {
  const std::string id = child.id;
  fork->children.push_back(id);
  Entry& entry = entries_[id];
  entry.sandbox = std::move(child);
  names_.Add(entry.sandbox);
  entry.fork = fork;
  objects_.Share(fork->parent, id);
  Hold(entry.sandbox);
  entry.launch =
      std::make_shared<Launch>(launch_parts_, Launch::Order{id, request_id, std::nullopt, ""});
  entry.launch->Join([this, fork, id](const tl::expected<Sandbox, CreateError>& answer) {
    if (!answer) return FailFork(*fork, id, answer.error());
    fork->made.push_back(*answer);
  });
}

void Lifecycle::RepeatFork(const KeyRecord& first, const WantedFork& wanted, const Forked& done) {
  if (Status same = CheckRepeat(first, wanted.fingerprint); !same) {
    return done(tl::unexpected(CreateError(std::move(same).error())));
  }
  const Entry* entry = Look(first.sandbox_id);
  if (entry->fork) return entry->fork->waiters.push_back(done);
  std::vector<Sandbox> made;
  for (const Sandbox* sandbox : All()) {
    if (sandbox->fork_layer == entry->sandbox.fork_layer) made.push_back(*sandbox);
  }
  done(std::move(made));
}

void Lifecycle::LaunchChildren(const std::shared_ptr<Fork>& fork, const Result<uint64_t>& bytes) {
  if (!bytes) return FailFork(*fork, "", CreateError(bytes.error()));
  for (const std::string& id : fork->children) {
    const Entry* child = fork->over ? nullptr : Look(id);
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
  fork->built.insert(child.sandbox.id);
  if (fork->built.size() < fork->children.size()) return;
  const Cause running{"CONTAINER_RUNNING", "Sandbox is running"};
  std::vector<Sandbox> records;
  for (const std::string& id : fork->children) {
    const Entry* entry = Look(id);
    if (entry == nullptr || entry->sandbox.state != State::kBuilding) {
      return FailFork(*fork, "",
                      Refusal(Code::kFailedPrecondition,
                              "sandbox " + id + " was deleted while it was created"));
    }
    Enter(records.emplace_back(entry->sandbox), State::kRunning, running);
  }
  if (Status recorded = store_.Insert(records, fork->key); !recorded) {
    return FailFork(*fork, "",
                    CreateError(std::move(recorded).error().Wrap("record the new sandboxes")));
  }
  fork->over = true;
  for (const std::string& id : fork->children) {
    Entry& entry = *Look(id);
    entry.fork.reset();
    entry.launch->Recorded();
    ApplyAnyway(entry, Event::kBuilt, running);
  }
  LogLine(LogLevel::kInfo, "sandbox forked")
      .Add("sandbox", fork->parent)
      .Add("children", static_cast<uint64_t>(fork->children.size()));
  for (const Forked& done : std::exchange(fork->waiters, {})) done(fork->made);
}

void Lifecycle::FailFork(Fork& fork, const std::string& failed, const CreateError& error) {
  if (std::exchange(fork.over, true)) return;
  if (fork.key) idempotency_.Remove(fork.key->key);
  LogLine(LogLevel::kWarning, "cannot fork a sandbox").Add("sandbox", fork.parent).Add(error);
  for (const std::string& id : fork.children) {
    // Whoever tells of the one that failed removes it.
    Entry* const entry = id == failed ? nullptr : Look(id);
    if (entry == nullptr) continue;
    // Of one whose build is under way the answer is to come.
    const bool building = entry->sandbox.state == State::kBuilding && !fork.built.contains(id);
    if (entry->sandbox.state == State::kCancelled && !fork.built.contains(id)) continue;
    ApplyAnyway(*entry, building ? Event::kDelete : Event::kNotBuilt,
                {"PROVISIONING_ERROR", "another child of its fork could not be built"});
  }
  for (const Forked& done : std::exchange(fork.waiters, {})) done(tl::unexpected(error));
}

}  // namespace atl::sandbox
