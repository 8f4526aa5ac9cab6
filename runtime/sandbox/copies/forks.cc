#include "runtime/sandbox/copies/forks.h"

#include <set>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {

struct Forks::UnderWay {
  std::string parent;
  std::shared_ptr<Attempt> attempt;  // its sandboxes are the children
  std::set<std::string> built;       // children whose records wait for the others'
  std::shared_ptr<const void> use;   // keeps the parent from falling idle
};

class Forks::ChildBuild final : public Creates::Build {
 public:
  ChildBuild(Forks& forks, std::shared_ptr<UnderWay> fork, Order order)
      : Build(forks.parts_.creates, std::move(order)), forks_(forks), fork_(std::move(fork)) {}

 private:
  void Built(Sandbox& child) override {
    // The fork has failed meanwhile, and this child ends like the others.
    if (fork_->attempt->over()) return Build::Built(child);
    forks_.Built(fork_, child.id);
  }

  Forks& forks_;
  const std::shared_ptr<UnderWay> fork_;
};

void Forks::Fork(const tenants::Caller& caller, const std::string& id, const WantedFork& wanted,
                 const Forked& done) {
  const auto attempt = parts_.attempts.Begin(caller,
                                             {.kind = Attempt::Kind::kFork,
                                              .key = wanted.idempotency_key,
                                              .fingerprint = wanted.fingerprint,
                                              .request_id = wanted.request_id,
                                              .of = id,
                                              .origin = Origin::kFork},
                                             parts_.creates.TakesBack(),
                                             [this, done](const Attempt::Outcome& outcome) {
                                               if (!outcome)
                                                 return done(tl::unexpected(outcome.error()));
                                               done(Made(*outcome));
                                             });
  if (attempt == nullptr) return;
  auto children = ChildrenOf(caller, id, wanted.count);
  if (!children) return attempt->Fail(children.error());
  const auto layer = parts_.images.ReserveLayer();
  if (!layer) return attempt->Fail(CreateError(layer.error()));
  const Sandbox& parent = *parts_.registry.Look(id);
  const auto fork = std::make_shared<UnderWay>();
  fork->parent = id;
  fork->attempt = attempt;
  fork->use = parts_.pauses.Use(parent);
  for (Sandbox& child : *children) {
    child.layers.insert(child.layers.begin(), *layer);
    child.fork_layer = *layer;
    const std::string child_id = child.id;
    const std::string tenant = child.tenant;
    parts_.objects.Share(id, child_id);
    parts_.creates.Add(std::move(child), attempt,
                       std::make_shared<ChildBuild>(*this, fork,
                                                    Launch::Order{.host_id = child_id,
                                                                  .tenant = tenant,
                                                                  .request_id = wanted.request_id,
                                                                  .origin = Origin::kFork}));
  }
  parts_.room.GiveWay();
  // Not synced to the disk, because no sandbox outlives the host.
  parts_.snapshots.Start(
      {.sandbox = HostId(parent),
       .layer = *layer,
       .name = "fork:" + attempt->sandboxes().front(),
       .lasting = false,
       .done = guard_([this, fork](const Result<uint64_t>& bytes) { Go(*fork, bytes); })});
}

tl::expected<std::vector<Sandbox>, CreateError> Forks::ChildrenOf(const tenants::Caller& caller,
                                                                  const std::string& id,
                                                                  size_t count) {
  const auto parent = parts_.registry.Get(caller, id);
  if (!parent) return tl::unexpected(CreateError(parent.error()));
  if (const Status stands = CheckStands((*parent)->spec); !stands) {
    return tl::unexpected(CreateError(stands.error()));
  }
  return parts_.check.Children(caller, **parent, count);
}

std::vector<Sandbox> Forks::Made(const std::vector<std::string>& ids) const {
  std::vector<Sandbox> children;
  for (const std::string& id : ids) {
    if (const Sandbox* const child = parts_.registry.Look(id)) children.push_back(*child);
  }
  if (children.size() != 1) return children;
  // Earlier releases recorded only the first child with a key.
  for (const Sandbox* const other : parts_.registry.All(tenants::Caller::Daemon())) {
    const Sandbox& first = children.front();
    if (other->fork_layer == first.fork_layer && other->id != first.id) children.push_back(*other);
  }
  return children;
}

void Forks::Go(const UnderWay& fork, const Result<uint64_t>& bytes) {
  Attempt& attempt = *fork.attempt;
  if (!bytes) return attempt.Fail(CreateError(bytes.error()));
  for (const std::string& id : attempt.sandboxes()) {
    const Sandbox* const child = attempt.over() ? nullptr : parts_.registry.Look(id);
    if (child == nullptr) return;
    // The parent's volumes exist, and the child must neither make nor delete them.
    std::vector<VolumeMount> mounts;
    for (const wire::Volume& volume : child->spec.volumes) {
      mounts.push_back({.volume = volume, .create_if_missing = false});
    }
    parts_.creates.HaveVolumes(id, mounts);
  }
}

void Forks::Built(const std::shared_ptr<UnderWay>& fork, const std::string& child) {
  Attempt& attempt = *fork->attempt;
  const std::vector<std::string>& children = attempt.sandboxes();
  fork->built.insert(child);
  if (fork->built.size() < children.size()) return;
  std::vector<Sandbox> records;
  for (const std::string& id : children) {
    const Sandbox* const sandbox = parts_.registry.Look(id);
    if (sandbox == nullptr || sandbox->state != State::kBuilding) {
      return attempt.Fail(CreateError(
          Error(Code::kFailedPrecondition, "sandbox " + id + " was deleted while it was created")));
    }
    parts_.machine.Enter(records.emplace_back(*sandbox), State::kRunning, RunningCause());
  }
  if (Status recorded = parts_.store.Insert(records, attempt.key()); !recorded) {
    return attempt.Fail(CreateError(std::move(recorded).error().Wrap("record the new sandboxes")));
  }
  attempt.Commit();
  fork->use.reset();
  for (const std::string& id : children) {
    Sandbox& sandbox = *parts_.registry.Look(id);
    parts_.machine.TakeAttempt(sandbox);
    parts_.machine.ApplyAnyway(sandbox, Event::kBuilt, RunningCause());
  }
  LogLine(LogLevel::kInfo, "sandbox forked")
      .Add("sandbox", fork->parent)
      .Add("children", static_cast<uint64_t>(children.size()));
  attempt.Answer();
}

}  // namespace atl::sandbox
