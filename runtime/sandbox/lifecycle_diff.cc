// What a sandbox holds otherwise than something else.
#include <algorithm>
#include <utility>

#include "images/report.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// A difference lasts as long as its client reads, so that one sandbox gets one of them and no more.
// Fewer than the spawner has processes for (kMaxUnpacks): imports go on.
constexpr size_t kMaxDiffs = 8;

}  // namespace

void Lifecycle::Diff(const std::string& id, const std::string& snapshot, bool archive, UniqueFd out,
                     std::function<void(Status)> done) {
  const auto entry = Visible(id);
  if (!entry) return done(Fail(entry.error()));
  const Sandbox& sandbox = (*entry)->sandbox;
  if (!IsLive(sandbox.state)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                         ": one that runs or is paused can be compared"));
  }
  if (diffs_.contains(id)) {
    return done(Fail(Code::kUnavailable, "sandbox " + id +
                                             " is being compared for another client; try again "
                                             "when that has ended"));
  }
  if (diffs_.size() >= kMaxDiffs) {
    return done(Fail(Code::kUnavailable,
                     std::to_string(kMaxDiffs) + " sandboxes are being compared; try again later"));
  }
  wire::DiffUpper asked{HostId(sandbox), {}, archive, std::move(out)};
  if (snapshot.empty()) {
    // What its snapshots and those before it have added lies above its image.
    const auto image =
        std::find_if(sandbox.layers.begin(), sandbox.layers.end(),
                     [this](wire::LayerId layer) { return !images_.IsWritten(layer); });
    asked.against.assign(image, sandbox.layers.end());
  } else {
    auto usable = snapshots_.Usable(snapshot);
    if (!usable) return done(Fail(std::move(usable).error()));
    if (usable->image_digest != sandbox.image_digest) {
      return done(Fail(Code::kFailedPrecondition,
                       "snapshot " + snapshot + " is of image " + usable->image + ", sandbox " +
                           id + " of " + sandbox.spec.image +
                           ": nearly everything would differ, compare those of one image"));
    }
    asked.against = std::move(usable->layers);
  }
  // A snapshot may be deleted meanwhile; what is read of it stays until then.
  diffs_.insert(id);
  compared_.insert(asked.against.begin(), asked.against.end());
  std::vector<wire::LayerId> held = asked.against;
  spawner_.Ask(std::move(asked), [this, id, held = std::move(held), done = std::move(done),
                                  use = Use(id), alive = std::weak_ptr(alive_)](
                                     const Result<wire::Unpacked>& told) {
    if (!alive.expired()) {
      diffs_.erase(id);
      for (const wire::LayerId layer : held) compared_.erase(compared_.find(layer));
      images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
    }
    if (told) return done({});
    // The words of a process that has read a stranger's files.
    const Error error = images::DecodeUnpackError(told.error());
    done(Fail(Error(error.code(),
                    alive.expired() ? error.message()
                                    : WithoutPaths(error.message(), config_.private_directories),
                    error.error_number())));
  });
}

}  // namespace atl::sandbox
