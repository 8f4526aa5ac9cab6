#include "runtime/sandbox/snapshots/layer_watch.h"

#include <algorithm>
#include <utility>

#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kStoreLookUs = 60 * 1000 * 1000;

}  // namespace

struct LayerWatch::Look {
  std::vector<wire::LayerId> layers;  // layers not asked for yet
  std::set<wire::LayerId> missing;
  std::function<void(Result<std::string>)> done;
};

LayerWatch::LayerWatch(Loop& loop, Health& health, launch::SpawnerClient& spawner,
                       const images::ImageStore& images, const Snapshots& snapshots)
    : loop_(loop), health_(health), spawner_(spawner), images_(images), snapshots_(snapshots) {
  LookAgain();
}

LayerWatch::~LayerWatch() {
  loop_.Cancel(timer_);
}

void LayerWatch::LookAgain() {
  FindStore([this](const Result<std::string>& store) {
    // Without an answer nothing is known; the connection to the spawner has its own subject in
    // /health.
    if (store) health_.Clear("layers");
    if (!store && store.error().code() == Code::kFailedPrecondition) {
      health_.Set("layers", store.error().message());
    }
    timer_ = loop_.After(kStoreLookUs, [this] { LookAgain(); });
  });
}

void LayerWatch::FindStore(std::function<void(Result<std::string>)> done) {
  std::set<wire::LayerId> layers;
  for (const images::Image& image : images_.List(tenants::Caller::Daemon())) {
    layers.insert(image.layers.begin(), image.layers.end());
  }
  for (const Snapshot* snapshot : snapshots_.All(tenants::Caller::Daemon())) {
    if (snapshot->state != Snapshot::State::kReady) continue;
    layers.insert(snapshot->layers.begin(), snapshot->layers.end());
  }
  Ask(std::make_shared<Look>(Look{{layers.begin(), layers.end()}, {}, std::move(done)}));
}

void LayerWatch::Ask(const std::shared_ptr<Look>& look) {
  wire::CheckLayers asked;
  const size_t count = std::min(look->layers.size(), wire::CheckLayers::kMost);
  asked.layers.assign(look->layers.end() - static_cast<std::ptrdiff_t>(count), look->layers.end());
  look->layers.resize(look->layers.size() - count);
  spawner_.Ask(std::move(asked), guard_([this, look](const Result<wire::CheckedLayers>& checked) {
                 if (!checked) return look->done(Fail(checked.error()));
                 look->missing.insert(checked->missing.begin(), checked->missing.end());
                 if (!look->layers.empty()) return Ask(look);
                 const std::string trouble = TroubleOf(look->missing);
                 if (trouble.empty()) return look->done(checked->store);
                 look->done(Fail(Code::kFailedPrecondition, trouble));
               }));
}

// An image that was removed meanwhile misses nothing. Names of images are left out, because anybody
// may read /health.
std::string LayerWatch::TroubleOf(const std::set<wire::LayerId>& missing) const {
  if (missing.empty()) return {};
  const auto lacks = [&missing](const std::vector<wire::LayerId>& layers) {
    return std::any_of(layers.begin(), layers.end(),
                       [&](wire::LayerId layer) { return missing.contains(layer); });
  };
  size_t images = 0, snapshots = 0;
  for (const images::Image& image : images_.List(tenants::Caller::Daemon()))
    images += lacks(image.layers);
  for (const Snapshot* snapshot : snapshots_.All(tenants::Caller::Daemon()))
    snapshots += lacks(snapshot->layers);
  if (images + snapshots == 0) return {};
  return "the store lacks layers of " + std::to_string(images) + " images and " +
         std::to_string(snapshots) +
         " snapshots: put <data_dir>/store back from its copy, or remove and import them again "
         "('atoll image verify --all' names the images)";
}

}  // namespace atl::sandbox
