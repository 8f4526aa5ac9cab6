#include "images/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "images/catalog.h"
#include "images/import.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::images {
namespace {

constexpr char kDatabase[] = "images.db";
constexpr char kTemporary[] = "tmp";
// An archive waits with its file on disk: a client must not be able to queue without end.
constexpr size_t kMaxQueued = 16;

std::string RandomName() {
  std::string name;
  for (const char byte : sys::RandomBytes(8)) {
    name += std::to_string(static_cast<unsigned char>(byte)) + ".";
  }
  name.pop_back();
  return name;
}

class Store : public ImageStore {
 public:
  Store(std::string directory, Loop& loop, UnpackRunner& runner, Catalog catalog)
      : directory_(std::move(directory)),
        loop_(loop),
        runner_(runner),
        catalog_(std::move(catalog)) {}
  ~Store() override {
    if (running_) running_->Abandon();
  }

  Status Load();

  void Import(UniqueFd archive, std::string name, ImportDone done) override;
  Result<Image> Find(std::string_view name) const override;
  std::vector<Image> List() const override;
  Status Remove(std::string_view name, InUse layer_in_use) override;
  void CollectLayers(InUse layer_in_use) override;
  Result<UniqueFd> TemporaryFile() override;

 private:
  struct Request {
    UniqueFd archive;
    std::string name;
    ImportDone done;
  };
  void StartNext();
  void Finished(Result<ImportResult> result, const ImportDone& done);
  void PostFailure(ImportDone done, Error error);
  // Removes the directory, then the number.
  void RemoveLeftover(wire::LayerId layer);

  std::string directory_;
  Loop& loop_;
  UnpackRunner& runner_;
  Catalog catalog_;  // the loop's own connection
  std::map<std::string, Image, std::less<>> images_;
  std::map<std::string, Layer> layers_;  // by blob digest
  std::deque<Request> queue_;
  std::shared_ptr<images::Import> running_;
  // Outlived by callbacks of the runner.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Status Store::Load() {
  ATOLL_ASSIGN(std::vector<Image> images, catalog_.LoadImages());
  for (Image& image : images) {
    const std::string name = image.name;
    images_.emplace(name, std::move(image));
  }
  ATOLL_ASSIGN(std::vector<Layer> layers, catalog_.LoadLayers());
  for (Layer& layer : layers) {
    const std::string digest = layer.blob_digest;
    layers_.emplace(digest, std::move(layer));
  }
  ATOLL_ASSIGN(const std::vector<wire::LayerId> leftovers, catalog_.LoadLeftovers());
  for (const wire::LayerId layer : leftovers) RemoveLeftover(layer);
  return {};
}

void Store::PostFailure(ImportDone done, Error error) {
  loop_.Post([done = std::move(done), error = std::move(error)] { done(Fail(error)); });
}

void Store::Import(UniqueFd archive, std::string name, ImportDone done) {
  if (!name.empty()) {
    auto normalised = NormaliseImageName(name);
    if (!normalised) return PostFailure(std::move(done), std::move(normalised).error());
    name = *std::move(normalised);
  }
  struct stat st {};
  if (::fstat(archive.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return PostFailure(std::move(done),
                       Error(Code::kInvalidArgument, "the archive is not a regular file"));
  }
  if (queue_.size() == kMaxQueued) {
    return PostFailure(std::move(done),
                       Error(Code::kUnavailable,
                             std::to_string(kMaxQueued) + " imports are waiting; try again later"));
  }
  // An upload is written through this descriptor: what the unpacker gets must not be able to write.
  auto readonly = sys::Open("/proc/self/fd/" + std::to_string(archive.get()), O_RDONLY);
  if (!readonly) return PostFailure(std::move(done), std::move(readonly).error());
  queue_.push_back({*std::move(readonly), std::move(name), std::move(done)});
  StartNext();
}

void Store::StartNext() {
  // One at a time: two at once would both unpack a layer that they share, and the disk is what
  // limits either.
  if (running_ || queue_.empty()) return;
  Request request = std::move(queue_.front());
  queue_.pop_front();
  const std::string temporary = directory_ + "/" + kTemporary + "/import-" + RandomName();
  running_ = std::make_shared<images::Import>(
      images::Import::Environment{loop_, runner_, directory_ + "/" + kDatabase, temporary, layers_,
                                  SystemClock().UnixMillis()},
      std::move(request.archive), std::move(request.name),
      [this, done = std::move(request.done)](Result<ImportResult> result) {
        Finished(std::move(result), done);
      });
  // From the loop, so that `done` is never called from inside the caller's Import.
  loop_.Post([import = running_, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) import->Start();
  });
}

void Store::Finished(Result<ImportResult> result, const ImportDone& done) {
  running_.reset();
  if (result) {
    for (const Layer& layer : result->new_layers)
      layers_.insert_or_assign(layer.blob_digest, layer);
    images_.insert_or_assign(result->image.name, result->image);
  }
  StartNext();
  // Last: it may destroy this.
  done(result ? Result<Image>(std::move(result->image)) : Fail(std::move(result).error()));
}

Result<Image> Store::Find(std::string_view name) const {
  ATOLL_ASSIGN(const std::string normalised, NormaliseImageName(name));
  const auto found = images_.find(normalised);
  if (found == images_.end()) {
    return Fail(Code::kNotFound, "image '" + normalised +
                                     "' is not imported; import it with: atoll image import FILE "
                                     "--name " +
                                     normalised);
  }
  return found->second;
}

std::vector<Image> Store::List() const {
  std::vector<Image> images;
  images.reserve(images_.size());
  for (const auto& [name, image] : images_) images.push_back(image);
  return images;
}

Status Store::Remove(std::string_view name, InUse layer_in_use) {
  ATOLL_ASSIGN(const Image image, Find(name));
  // The commit on the pool thread would bring the name back, or this would take the new one away.
  if (running_ && running_->Committing(image.name)) {
    return Fail(Code::kFailedPrecondition,
                "image '" + image.name + "' is being imported; try again in a moment");
  }
  ATOLL_TRY(catalog_.RemoveImage(image.name));
  images_.erase(image.name);
  CollectLayers(std::move(layer_in_use));
  return {};
}

void Store::CollectLayers(InUse layer_in_use) {
  std::set<wire::LayerId> needed;
  for (const auto& [name, image] : images_) needed.insert(image.layers.begin(), image.layers.end());
  std::vector<wire::LayerId> unneeded;
  for (const auto& [digest, layer] : layers_) {
    // Any running import: which of the known layers it will want shows only after it has read the
    // archive. They are collected the next time.
    if (!needed.contains(layer.id) && !running_ && !layer_in_use(layer.id)) {
      unneeded.push_back(layer.id);
    }
  }
  if (unneeded.empty()) return;
  // Not written, not removed: a row that says "ready" must have its directory. The next call tries
  // again.
  if (!catalog_.CondemnLayers(unneeded)) return;
  std::erase_if(layers_, [&](const auto& entry) {
    return std::find(unneeded.begin(), unneeded.end(), entry.second.id) != unneeded.end();
  });
  for (const wire::LayerId layer : unneeded) RemoveLeftover(layer);
}

void Store::RemoveLeftover(wire::LayerId layer) {
  runner_.RemoveLayer(layer, [this, layer, alive = std::weak_ptr<bool>(alive_)](
                                 const Result<std::string>& removed) {
    // Not removed: it stays a leftover in the catalog, and the next start tries again.
    if (alive.expired() || !removed) return;
    [[maybe_unused]] const auto forgotten = catalog_.ForgetLayer(layer);
  });
}

Result<UniqueFd> Store::TemporaryFile() {
  return sys::Open(directory_ + "/" + kTemporary, O_TMPFILE | O_RDWR, 0600);
}

}  // namespace

Result<std::unique_ptr<ImageStore>> ImageStore::Open(const std::string& directory, Loop& loop,
                                                     UnpackRunner& runner) {
  ATOLL_ASSIGN(const UniqueFd dir, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  // It stays, once it is there: without a free inode it could not be made again.
  ATOLL_TRY(sys::EnsureDirAt(dir.get(), kTemporary, 0700));
  ATOLL_ASSIGN(const UniqueFd temporary,
               sys::OpenAt(dir.get(), kTemporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const std::vector<std::string> leftovers, sys::ListDir(temporary.get()));
  // An unpacker that was taken over can leave directories that only its own user may empty: they
  // cost space, and must not keep the daemon from starting. Names in there are random, not reused.
  for (const std::string& name : leftovers) {
    [[maybe_unused]] const auto removed = sys::RemoveTree(temporary.get(), name);
  }
  ATOLL_ASSIGN(Catalog catalog, Catalog::Open(directory + "/" + kDatabase));
  auto store = std::make_unique<Store>(directory, loop, runner, std::move(catalog));
  ATOLL_TRY(store->Load());
  return store;
}

}  // namespace atl::images
