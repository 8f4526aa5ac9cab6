// Sandboxes whose image is being imported: acknowledged as Pending, built when it is there.
#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// People look at it; programs poll more slowly.
constexpr int64_t kProgressUs = 250 * 1000;

}  // namespace

PendingImports::Id Lifecycle::ImportBegins(const std::string& image,
                                           PendingImports::Progress progress) {
  return imports_.Begin(image, std::move(progress));
}

Result<std::string> Lifecycle::AwaitedImage(const std::string& name, const Error& missing) const {
  if (missing.code() != Code::kNotFound) return Fail(missing);
  ATOLL_ASSIGN(std::string image, images::NormaliseImageName(name));
  if (!imports_.IsRunning(image)) return Fail(missing);
  if (imports_.waiting() >= config_.build_queue) {
    return Fail(Code::kResourceExhausted,
                std::to_string(imports_.waiting()) + " sandboxes wait for images; try again later");
  }
  return image;
}

void Lifecycle::AwaitImage(Entry& entry) {
  // A client is told of it before it can be built: what it knows must survive us.
  if (auto written = store_.Insert(entry.sandbox, KeyOf(entry)); !written) {
    return BuildFailed(entry, std::move(written).error().Wrap("record the new sandbox"));
  }
  entry.stored = true;
  KeepVolumes(entry);
  imports_.Wait(entry.awaited, entry.sandbox.id);
  Note(entry.sandbox, std::string(StateName(entry.sandbox.state)));
  SetDeadline(entry);
  ShowProgress();
  if (imports_.waiting() == 1) {
    loop_.After(kProgressUs, [this] { RepeatProgress(); });
  }
  const Sandbox answer = entry.sandbox;
  for (const Created& done : std::exchange(entry.created, {})) done(answer);
}

void Lifecycle::ShowProgress() {
  imports_.ForEachWaiting([this](const std::string& id, const std::string& progress) {
    Entry* entry = Look(id);
    if (entry != nullptr && entry->sandbox.state == State::kPending) {
      entry->sandbox.message = progress;
    }
  });
}

void Lifecycle::RepeatProgress() {
  if (imports_.waiting() == 0) return;
  ShowProgress();
  loop_.After(kProgressUs, [this] { RepeatProgress(); });
}

void Lifecycle::ImportEnds(PendingImports::Id id, const Status& status) {
  for (const std::string& waiting : imports_.End(id, status.has_value())) {
    Entry* entry = Look(waiting);
    if (entry == nullptr || entry->sandbox.state != State::kPending) continue;
    const std::string image = std::exchange(entry->awaited, "");
    Status usable = UseAwaited(*entry, image);
    // Without the import another image of that name would do as well; without either it is the
    // import that is to blame.
    if (!usable && !status) {
      usable = Fail(Error(status.error()).Wrap("image " + image + " was not imported"));
    }
    if (!usable) {
      BuildFailed(*entry, std::move(usable).error());
      continue;
    }
    entry->sandbox.reason = "CONTAINER_STARTING";
    entry->sandbox.message = "Sandbox is being built";
    Enqueue(*entry);
  }
}

Status Lifecycle::UseAwaited(Entry& entry, const std::string& name) const {
  ATOLL_ASSIGN(images::Image image, images_.Find(name));
  ATOLL_TRY(UseImage(&entry, std::move(image)));
  // Others have been promised memory meanwhile.
  return CheckBudget(config_.budget, held_, entry.sandbox.limits);
}

void Lifecycle::GiveUpPending(const wire::Reply& hello) {
  std::vector<std::string> pending;
  for (const auto& [id, entry] : entries_) {
    if (entry.sandbox.state == State::kPending) pending.push_back(id);
  }
  for (const std::string& id : pending) {
    Entry& entry = *Look(id);
    // Its build may have begun, which no record says.
    const auto found =
        std::find_if(hello.sandboxes.begin(), hello.sandboxes.end(),
                     [&id](const wire::SandboxRecord& record) { return record.id == id; });
    if (found != hello.sandboxes.end()) {
      entry.sandbox.slot = found->slot;
      entry.spawned = entry.built = true;
    }
    ApplyAnyway(entry, Event::kGivenUp,
                {"PROVISIONING_ERROR",
                 "the daemon ended while the image was imported; import it and create another"});
  }
}

}  // namespace atl::sandbox
