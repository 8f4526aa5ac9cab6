#include "images/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "images/catalog.h"
#include "images/digest.h"
#include "images/export.h"
#include "images/image_hint.h"
#include "images/import.h"
#include "images/oci_layout.h"
#include "images/verify.h"
#include "runtime/base/clock.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/sys.h"

namespace atl::images {
namespace {

constexpr char kDatabase[] = "images.db";
constexpr char kTemporary[] = "tmp";
constexpr int64_t kTryAgainUs = 1'000'000;
constexpr int kMoreTries = 60;
// Most queued imports. Each holds its archive on disk, so a client must not queue without limit.
constexpr size_t kMaxQueued = 16;
// Most exports and verifications at a time, out of the unpackers that the spawner runs for
// everybody (kMaxUnpacks).
constexpr size_t kMaxReadings = 2;
// Most exported archives. Each is an unlinked file until its client has read it.
constexpr size_t kMaxArchives = 8;
constexpr size_t kMaxArchivesOfAnImage = 2;

// Fails unless `image` fits into the file system of `archive` and leaves room for the databases.
Status CheckArchiveRoom(const Image& image, int archive) {
  constexpr uint64_t kMostKept = 1 << 30;
  struct statvfs info {};
  if (::fstatvfs(archive, &info) != 0) return FailSys("fstatvfs the archive");
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  const uint64_t kept = std::min<uint64_t>(kMostKept, info.f_blocks / 20 * info.f_frsize);
  if (free > kept && free - kept > image.size_bytes) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "no room for an archive of " + image.name +
                        " on the file system of <data_dir>/state: it needs " +
                        std::to_string(image.size_bytes >> 20) + " MiB, " +
                        std::to_string(free >> 20) + " MiB are free and " +
                        std::to_string(kept >> 20) + " MiB of these are reserved for the daemon",
                    ENOSPC));
}

std::string RandomName() {
  std::string name;
  for (const char byte : sys::RandomBytes(8)) {
    name += std::to_string(static_cast<unsigned char>(byte)) + ".";
  }
  name.pop_back();
  return name;
}

class ArchiveFile : public StoredArchive, public std::enable_shared_from_this<ArchiveFile> {
 public:
  // `counted` is held as long as the file exists.
  static Result<std::shared_ptr<StoredArchive>> Of(UniqueFd file,
                                                   std::shared_ptr<const void> counted,
                                                   Loop& loop) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return FailSys("fstat the archive");
    return std::make_shared<ArchiveFile>(std::move(file), std::move(counted), info.st_size, loop);
  }
  ArchiveFile(UniqueFd file, std::shared_ptr<const void> counted, off_t size, Loop& loop)
      : file_(std::move(file)), counted_(std::move(counted)), size_(size), loop_(loop) {}

  uint64_t size() const override { return static_cast<uint64_t>(size_); }
  void Read(std::function<void(Result<std::string>)> done) override {
    constexpr size_t kPart = 256 << 10;
    const auto part = std::make_shared<Result<std::string>>(std::string(kPart, '\0'));
    loop_.RunBlocking(
        [self = shared_from_this(), part] {
          const ssize_t n =
              TEMP_FAILURE_RETRY(::pread(self->file_.get(), (*part)->data(), kPart, self->at_));
          if (n < 0) {
            *part = FailSys("read the archive");
          } else {
            (*part)->resize(static_cast<size_t>(n));
            self->at_ += n;
          }
        },
        [part, done = std::move(done)] { done(std::move(*part)); });
  }

 private:
  const UniqueFd file_;
  const std::shared_ptr<const void> counted_;
  const off_t size_;
  off_t at_ = 0;
  Loop& loop_;
};

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
  // Removes these names, which an earlier daemon left in the temporary directory. Retries up to
  // `tries` times.
  void RemoveTemporary(std::vector<std::string> leftovers, int tries);

  void Import(const Caller& caller, UniqueFd archive, std::string name, ImportDone done) override;
  void ImportLayers(const Caller& caller, UniqueFd archive, Accept accept,
                    ImportDone done) override {
    Queue({caller.tenant, std::move(archive), "", std::move(accept), std::move(done)});
  }
  Result<Image> Find(const Caller& caller, std::string_view name) const override;
  std::vector<Image> List(const Caller& caller) const override;
  Status Remove(const Caller& caller, std::string_view name, InUse layer_in_use) override;
  void CollectLayers(InUse layer_in_use) override;
  std::set<std::string> LayerDigests(const Caller& caller) const override;
  std::vector<Layer> LayersOf(const Image& image) const override;
  Result<Image> Tag(const Caller& caller, std::string_view image, std::string_view name) override;
  Result<Image> Commit(const Caller& caller, std::string_view name,
                       std::vector<wire::LayerId> layers, std::string_view config) override;
  void Prune(Dispensable dispensable, InUse layer_in_use, PruneDone done) override;
  Result<wire::LayerId> ReserveLayer() override;
  Status KeepLayer(const Layer& layer) override;
  void DropLayer(wire::LayerId layer) override { RemoveLeftover(layer); }
  void Verify(const Caller& caller, std::string_view name, VerifyDone done) override;
  void Export(const Image& image, ArchiveForm form, ExportDone done) override;
  bool HasLayer(wire::LayerId layer) const override { return FindLayer(layer) != nullptr; }
  bool IsWritten(wire::LayerId layer) const override;
  uint64_t WrittenBytes() const override;
  uint64_t ImportedBytes() const override;
  Result<UniqueFd> TemporaryFile() override;

 private:
  struct Request {
    std::string tenant;
    UniqueFd archive;
    std::string name;
    Accept accept;  // set for ImportLayers
    ImportDone done;
    FairPlaces::Place place = {};
  };
  void Queue(Request request);
  void StartNext();
  void Finished(Result<ImportResult> result, const ImportDone& done);
  void PostFailure(ImportDone done, Error error);
  Status RefuseWhileCommitting(const Image& image) const;
  void Keep(const Image& image) {
    images_.insert_or_assign(ImageKey(image.tenant, image.name), image);
  }
  // Returns the layers of the images that the tenant may use.
  std::set<wire::LayerId> LayersOfTenant(const std::string& tenant) const;
  // Null if the layer does not exist.
  const Layer* FindLayer(wire::LayerId id) const;
  // Removes unused layers from the records and returns them. Returns none while an import runs.
  Result<std::vector<Layer>> CondemnUnused(const InUse& layer_in_use);
  // Removes the layer's directory, then its number.
  void RemoveLeftover(wire::LayerId layer, std::function<void(bool gone)> then = {});
  void RunPrune(const Dispensable& dispensable, const InUse& layer_in_use, PruneDone done);
  void PostPruned(PruneDone done, Result<Pruned> result);

  std::string directory_;
  Loop& loop_;
  UnpackRunner& runner_;
  Catalog catalog_;                                   // the loop's own connection
  std::map<std::string, Image, std::less<>> images_;  // key: ImageKey
  std::map<std::string, Layer> layers_;               // key: blob digest
  std::set<wire::LayerId> leftovers_;                 // leftovers that could not be removed yet
  std::deque<Request> queue_;
  FairPlaces queued_{kMaxQueued};
  // Keeps an image's layers from being removed while they are read, until the last copy of the
  // result is gone. kUnavailable: too many are being read, or its tenant has its share.
  Result<std::shared_ptr<void>> Hold(const Image& image);
  std::multiset<wire::LayerId> held_;
  FairPlaces readings_{kMaxReadings};
  // Counts an archive of `image` until the last copy of the result is gone. kUnavailable: too many
  // archives have not been read by their clients yet, or the image's tenant has its share.
  Result<std::shared_ptr<const void>> CountArchive(const Image& image);
  struct Archive {
    std::string digest;  // the image's
    FairPlaces::Place place;
  };
  std::vector<std::weak_ptr<const Archive>> archives_;
  FairPlaces exported_{kMaxArchives};
  std::vector<std::function<void()>> prunes_;  // prunes that wait for the running import
  std::shared_ptr<images::Import> running_;
  // Callbacks of the runner may outlive this object.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Status Store::Load() {
  ATOLL_ASSIGN(std::vector<Image> images, catalog_.LoadImages());
  for (Image& image : images) {
    std::string key = ImageKey(image.tenant, image.name);
    images_.emplace(std::move(key), std::move(image));
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

void Store::PostPruned(PruneDone done, Result<Pruned> result) {
  loop_.Post([done = std::move(done), result = std::move(result)] { done(result); });
}

void Store::PostFailure(ImportDone done, Error error) {
  loop_.Post([done = std::move(done), error = std::move(error)] { done(Fail(error)); });
}

void Store::Import(const Caller& caller, UniqueFd archive, std::string name, ImportDone done) {
  if (!name.empty()) {
    auto normalised = NormaliseImageName(name);
    if (!normalised) return PostFailure(std::move(done), std::move(normalised).error());
    name = *std::move(normalised);
  }
  Queue({caller.tenant, std::move(archive), std::move(name), {}, std::move(done)});
}

void Store::Queue(Request request) {
  struct stat st {};
  if (::fstat(request.archive.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return PostFailure(std::move(request.done),
                       Error(Code::kInvalidArgument, "the archive is not a regular file"));
  }
  if (!queued_.HasRoomFor(request.tenant)) {
    return PostFailure(std::move(request.done),
                       Error(Code::kUnavailable,
                             (request.tenant.empty() ? std::to_string(kMaxQueued) : "too many") +
                                 " imports are waiting; try again later"));
  }
  // The archive was written through this descriptor. The unpacker gets a read-only one.
  auto readonly = sys::Open(sys::FdPath(request.archive.get()), O_RDONLY);
  if (!readonly) return PostFailure(std::move(request.done), std::move(readonly).error());
  request.archive = *std::move(readonly);
  request.place = queued_.Take(request.tenant);
  queue_.push_back(std::move(request));
  StartNext();
}

void Store::StartNext() {
  // Imports run one at a time. Two at once would both unpack a layer that they share, and the disk
  // limits them anyway.
  if (running_ || queue_.empty()) return;
  Request request = std::move(queue_.front());
  queue_.pop_front();
  const std::string temporary = directory_ + "/" + kTemporary + "/import-" + RandomName();
  images::Import::Environment environment{.loop = loop_,
                                          .runner = runner_,
                                          .database = directory_ + "/" + kDatabase,
                                          .temporary = temporary,
                                          .tenant = request.tenant,
                                          .known = layers_,
                                          .others = {},
                                          .now_ms = SystemClock().UnixMillis()};
  if (!request.tenant.empty()) {
    const std::set<wire::LayerId> own = LayersOfTenant(request.tenant);
    std::erase_if(environment.known, [&](const auto& entry) {
      if (own.contains(entry.second.id)) return false;
      environment.others.insert(entry);
      return true;
    });
  }
  running_ = std::make_shared<images::Import>(
      std::move(environment), std::move(request.archive), std::move(request.name),
      std::move(request.accept),
      [this, done = std::move(request.done)](Result<ImportResult> result) {
        Finished(std::move(result), done);
      });
  // Posted, so that `done` is never called from within the caller's Import.
  loop_.Post([import = running_, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) import->Start();
  });
}

void Store::Finished(Result<ImportResult> result, const ImportDone& done) {
  running_.reset();
  if (result) {
    for (const Layer& layer : result->new_layers)
      layers_.insert_or_assign(layer.blob_digest, layer);
    for (const Image& image : result->images) Keep(image);
  }
  // `done` runs before the collection, because only its caller knows layers without a name. It may
  // destroy this object, or start another import, for which the prunes wait too.
  const std::weak_ptr<bool> alive(alive_);
  done(result ? Result<Image>(std::move(result->primary)) : Fail(std::move(result).error()));
  if (alive.expired()) return;
  if (!running_) {
    for (const auto& prune : std::exchange(prunes_, {})) prune();
  }
  StartNext();
}

Result<Image> Store::Find(const Caller& caller, std::string_view name) const {
  ATOLL_ASSIGN(const std::string normalised, NormaliseImageName(name));
  auto found = images_.find(ImageKey(caller.tenant, normalised));
  if (found == images_.end() && !caller.tenant.empty()) found = images_.find(normalised);
  if (found == images_.end()) {
    std::vector<std::string> known;
    for (const Image& image : List(caller)) known.push_back(image.name);
    return Fail(Code::kNotFound,
                "image '" + normalised + "' is not imported" + HintForImage(normalised, known));
  }
  return found->second;
}

std::vector<Image> Store::List(const Caller& caller) const {
  std::vector<Image> images;
  images.reserve(images_.size());
  for (const auto& [key, image] : images_) {
    if (image.tenant.empty() || caller.Sees(image.tenant)) images.push_back(image);
  }
  return images;
}

Status Store::RefuseWhileCommitting(const Image& image) const {
  // Otherwise the commit on the pool thread would restore the removed name, or replace the new
  // image.
  if (!running_ || !running_->Committing(image)) return {};
  return Fail(Code::kFailedPrecondition,
              "image '" + image.name + "' is being imported; try again in a moment");
}

std::set<wire::LayerId> Store::LayersOfTenant(const std::string& tenant) const {
  std::set<wire::LayerId> layers;
  for (const auto& [key, image] : images_) {
    if (!image.tenant.empty() && image.tenant != tenant) continue;
    layers.insert(image.layers.begin(), image.layers.end());
  }
  return layers;
}

std::set<std::string> Store::LayerDigests(const Caller& caller) const {
  const bool all = caller.tenant.empty();
  const std::set<wire::LayerId> own =
      all ? std::set<wire::LayerId>() : LayersOfTenant(caller.tenant);
  std::set<std::string> digests;
  for (const auto& [digest, layer] : layers_) {
    if (all || own.contains(layer.id)) digests.insert(digest);
  }
  return digests;
}

std::vector<Layer> Store::LayersOf(const Image& image) const {
  std::vector<Layer> layers;
  for (const wire::LayerId id : image.layers) {
    if (const Layer* layer = FindLayer(id)) layers.push_back(*layer);
  }
  return layers;
}

const Layer* Store::FindLayer(wire::LayerId id) const {
  const auto found = std::find_if(layers_.begin(), layers_.end(),
                                  [id](const auto& entry) { return entry.second.id == id; });
  return found == layers_.end() ? nullptr : &found->second;
}

Result<wire::LayerId> Store::ReserveLayer() {
  ATOLL_ASSIGN(const std::vector<wire::LayerId> ids, catalog_.ReserveLayers(1));
  return ids.front();
}

Status Store::KeepLayer(const Layer& layer) {
  ATOLL_TRY(catalog_.CommitImages({}, {layer}));
  layers_.insert_or_assign(layer.blob_digest, layer);
  return {};
}

bool Store::IsWritten(wire::LayerId id) const {
  const Layer* layer = FindLayer(id);
  return layer != nullptr && !IsSha256Digest(layer->blob_digest);
}

uint64_t Store::WrittenBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, layer] : layers_) {
    if (!IsSha256Digest(name)) bytes += layer.size_bytes;
  }
  return bytes;
}

uint64_t Store::ImportedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, layer] : layers_) {
    if (IsSha256Digest(name)) bytes += layer.size_bytes;
  }
  return bytes;
}

Result<Image> Store::Tag(const Caller& caller, std::string_view name, std::string_view another) {
  ATOLL_ASSIGN(Image image, Find(caller, name));
  ATOLL_ASSIGN(image.name, NormaliseImageName(another));
  image.tenant = caller.tenant;
  ATOLL_TRY(RefuseWhileCommitting(image));
  ATOLL_TRY(catalog_.CommitImages({image}, {}));
  Keep(image);
  return image;
}

Result<Image> Store::Commit(const Caller& caller, std::string_view name,
                            std::vector<wire::LayerId> layers, std::string_view config) {
  Image image;
  image.tenant = caller.tenant;
  ATOLL_ASSIGN(image.name, NormaliseImageName(name));
  ATOLL_ASSIGN(image.config, DecodeImageConfig(config));
  image.config.architecture = HostArchitecture();
  // The image has no manifest, so the digest is computed over its config and the names of its
  // layers.
  std::string content = EncodeImageConfig(image.config);
  for (const wire::LayerId id : layers) {
    const Layer* layer = FindLayer(id);
    if (layer == nullptr) {
      return Fail(Code::kNotFound, "layer " + std::to_string(id) + " of the image is gone");
    }
    content += "\n" + layer->blob_digest;
    image.size_bytes += layer->size_bytes;
  }
  image.digest = Sha256Of(content);
  image.layers = std::move(layers);
  image.created_at_ms = SystemClock().UnixMillis();
  ATOLL_TRY(RefuseWhileCommitting(image));
  ATOLL_TRY(catalog_.CommitImages({image}, {}));
  Keep(image);
  return image;
}

Status Store::Remove(const Caller& caller, std::string_view name, InUse layer_in_use) {
  ATOLL_ASSIGN(const Image image, Find(caller, name));
  if (image.tenant != caller.tenant) {
    return Fail(Code::kPermissionDenied, "image '" + image.name +
                                             "' is one of the host, which all tenants may use; an "
                                             "administrator can remove it");
  }
  const std::string key = ImageKey(image.tenant, image.name);
  ATOLL_TRY(RefuseWhileCommitting(image));
  ATOLL_TRY(catalog_.RemoveImage(key));
  images_.erase(key);
  CollectLayers(std::move(layer_in_use));
  return {};
}

Result<std::vector<Layer>> Store::CondemnUnused(const InUse& layer_in_use) {
  std::vector<Layer> unused;
  // An import may need any known layer; which ones is known only after it has read the archive.
  if (running_) return unused;
  std::set<wire::LayerId> needed;
  for (const auto& [name, image] : images_) needed.insert(image.layers.begin(), image.layers.end());
  std::vector<wire::LayerId> ids;
  for (const auto& [digest, layer] : layers_) {
    if (needed.contains(layer.id) || held_.contains(layer.id) || layer_in_use(layer.id)) continue;
    unused.push_back(layer);
    ids.push_back(layer.id);
  }
  if (unused.empty()) return unused;
  // If the database cannot be changed, nothing is removed: a layer recorded as ready must have its
  // directory.
  ATOLL_TRY(catalog_.CondemnLayers(ids));
  for (const Layer& layer : unused) layers_.erase(layer.blob_digest);
  return unused;
}

void Store::CollectLayers(InUse layer_in_use) {
  for (const wire::LayerId layer : std::exchange(leftovers_, {})) RemoveLeftover(layer);
  const auto unused = CondemnUnused(layer_in_use);
  if (!unused) return;  // the next call tries again
  for (const Layer& layer : *unused) RemoveLeftover(layer.id);
}

void Store::Prune(Dispensable dispensable, InUse layer_in_use, PruneDone done) {
  auto run = [this, dispensable = std::move(dispensable), layer_in_use = std::move(layer_in_use),
              done = std::move(done)] { RunPrune(dispensable, layer_in_use, done); };
  if (running_) {
    prunes_.push_back(std::move(run));
  } else {
    run();
  }
}

void Store::RunPrune(const Dispensable& dispensable, const InUse& layer_in_use, PruneDone done) {
  const auto pruned = std::make_shared<Pruned>();
  for (auto image = images_.begin(); image != images_.end();) {
    if (!dispensable(image->second)) {
      ++image;
      continue;
    }
    if (Status removed = catalog_.RemoveImage(image->first); !removed) {
      return PostPruned(std::move(done), Fail(std::move(removed).error()));
    }
    pruned->images.push_back(image->second.name);
    image = images_.erase(image);
  }
  auto unused = CondemnUnused(layer_in_use);
  if (!unused) return PostPruned(std::move(done), Fail(std::move(unused).error()));
  if (unused->empty()) return PostPruned(std::move(done), std::move(*pruned));
  const auto left = std::make_shared<size_t>(unused->size());
  for (const Layer& layer : *unused) {
    RemoveLeftover(layer.id, [pruned, left, done, bytes = layer.size_bytes](bool gone) {
      if (gone) {
        ++pruned->layers;
        pruned->bytes += bytes;
      }
      if (--*left == 0) done(std::move(*pruned));
    });
  }
}

void Store::RemoveLeftover(wire::LayerId layer, std::function<void(bool gone)> then) {
  runner_.RemoveLayer(layer,
                      [this, layer, then = std::move(then),
                       alive = std::weak_ptr<bool>(alive_)](const Result<std::string>& removed) {
                        if (alive.expired()) return;
                        // The removal failed (no spawner). The next collection tries again, or the
                        // next start, because the catalog still lists it as a leftover.
                        if (removed) {
                          [[maybe_unused]] const auto forgotten = catalog_.ForgetLayer(layer);
                        } else {
                          leftovers_.insert(layer);
                        }
                        if (then) then(removed.has_value());
                      });
}

Result<std::shared_ptr<void>> Store::Hold(const Image& image) {
  if (!readings_.HasRoomFor(image.tenant)) {
    return Fail(Code::kUnavailable,
                (image.tenant.empty() ? std::to_string(kMaxReadings) : "too many") +
                    " images are already being read; try again later");
  }
  held_.insert(image.layers.begin(), image.layers.end());
  // The pointer's value is not used, but must not be null.
  return std::shared_ptr<void>(this,
                               [layers = image.layers, this, alive = std::weak_ptr<bool>(alive_),
                                place = readings_.Take(image.tenant)](void*) {
                                 if (alive.expired()) return;
                                 for (const wire::LayerId layer : layers)
                                   held_.erase(held_.find(layer));
                               });
}

void Store::Verify(const Caller& caller, std::string_view name, VerifyDone done) {
  const auto image = Find(caller, name);
  if (!image) return loop_.Post([done = std::move(done), image] { done(Fail(image.error())); });
  auto null = sys::Open("/dev/null", O_WRONLY);
  if (!null)
    return loop_.Post([done = std::move(done), error = null.error()] { done(Fail(error)); });
  auto hold = Hold(*image);
  if (!hold)
    return loop_.Post([done = std::move(done), error = hold.error()] { done(Fail(error)); });
  std::make_shared<images::Verify>(
      alive_, runner_, LayersOf(*image), std::move(*null),
      [done = std::move(done), hold = *hold](std::vector<VerifiedLayer> layers) mutable {
        hold.reset();
        done(std::move(layers));
      })
      ->Start();
}

Result<std::shared_ptr<const void>> Store::CountArchive(const Image& image) {
  std::erase_if(archives_, [](const auto& archive) { return archive.expired(); });
  const auto of_image = std::ranges::count_if(archives_, [&](const auto& archive) {
    const auto counted = archive.lock();
    return counted && counted->digest == image.digest;
  });
  if (!exported_.HasRoomFor(image.tenant) ||
      static_cast<size_t>(of_image) >= kMaxArchivesOfAnImage) {
    return Fail(Code::kUnavailable,
                "too many archives of " + image.name +
                    " or of other images wait for their clients; try again later: the limits are " +
                    std::to_string(kMaxArchivesOfAnImage) + " of an image and " +
                    std::to_string(kMaxArchives) + " in total");
  }
  auto counted =
      std::make_shared<const Archive>(Archive{image.digest, exported_.Take(image.tenant)});
  archives_.push_back(counted);
  return counted;
}

void Store::Export(const Image& image, ArchiveForm form, ExportDone done) {
  const auto refuse = [&](Error error) {
    loop_.Post([done = std::move(done), error = std::move(error)] { done(Fail(error)); });
  };
  auto file = TemporaryFile();
  if (!file) return refuse(file.error());
  if (Status room = CheckArchiveRoom(image, file->get()); !room) return refuse(room.error());
  auto hold = Hold(image);
  if (!hold) return refuse(hold.error());
  auto counted = CountArchive(image);
  if (!counted) return refuse(counted.error());
  std::vector<Layer> layers = LayersOf(image);
  std::reverse(layers.begin(), layers.end());
  std::make_shared<images::Export>(
      alive_, loop_, runner_, image, std::move(layers), form, std::move(*file),
      [this, done = std::move(done), hold = *hold,
       counted = *counted](Result<UniqueFd> archive) mutable {
        hold.reset();
        if (!archive) return done(Fail(std::move(archive).error()));
        done(ArchiveFile::Of(*std::move(archive), std::move(counted), loop_));
      })
      ->Start();
}

// Retried, because the unpacker of a killed daemon may outlive it for a moment and still write
// here. A compromised unpacker can leave directories that only its own user may empty. They cost
// space, but must not keep the daemon from starting. Names here are random and not reused;
// RemoveTree appends ".<n>" to them.
void Store::RemoveTemporary(std::vector<std::string> leftovers, int tries) {
  const auto temporary = sys::Open(directory_ + "/" + kTemporary, O_RDONLY | O_DIRECTORY);
  if (!temporary) return;
  const auto names = sys::ListDir(temporary->get());
  if (!names) return;
  bool all = true;
  for (const std::string& name : *names) {
    const bool left = std::ranges::any_of(leftovers, [&](const std::string& one) {
      return name == one || name.starts_with(one + ".");
    });
    if (left && !sys::RemoveTree(temporary->get(), name)) all = false;
  }
  if (all || tries == 0) return;
  loop_.After(kTryAgainUs, [this, alive = std::weak_ptr<bool>(alive_), tries,
                            leftovers = std::move(leftovers)]() mutable {
    if (!alive.expired()) RemoveTemporary(std::move(leftovers), tries - 1);
  });
}

Result<UniqueFd> Store::TemporaryFile() {
  return sys::Open(directory_ + "/" + kTemporary, O_TMPFILE | O_RDWR, 0600);
}

}  // namespace

Result<std::unique_ptr<ImageStore>> ImageStore::Open(const std::string& directory, Loop& loop,
                                                     UnpackRunner& runner) {
  ATOLL_ASSIGN(const UniqueFd dir, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  // The directory is kept once it exists, because it could not be made again without a free inode.
  ATOLL_TRY(sys::EnsureDirAt(dir.get(), kTemporary, 0700));
  ATOLL_ASSIGN(const UniqueFd temporary,
               sys::OpenAt(dir.get(), kTemporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(std::vector<std::string> leftovers, sys::ListDir(temporary.get()));
  ATOLL_ASSIGN(Catalog catalog, Catalog::Open(directory + "/" + kDatabase));
  auto store = std::make_unique<Store>(directory, loop, runner, std::move(catalog));
  ATOLL_TRY(store->Load());
  store->RemoveTemporary(std::move(leftovers), kMoreTries);
  return store;
}

}  // namespace atl::images
