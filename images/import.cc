#include "images/import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "images/image_name.h"
#include "runtime/base/sys.h"

namespace atl::images {
namespace {

constexpr char kMembers[] = "members";
// Layers extracted at a time. Each keeps one CPU busy, and the spawner has room for this many.
constexpr size_t kExtractsAtOnce = 2;

}  // namespace

Import::Import(Environment environment, UniqueFd archive, std::string name,
               ImageStore::Accept accept, Done done)
    : environment_(std::move(environment)),
      archive_(std::move(archive)),
      name_(std::move(name)),
      accept_(std::move(accept)),
      done_(std::move(done)) {}

void Import::OnPool(std::function<Status()> work, std::function<void()> next) {
  auto status = std::make_shared<Status>();
  environment_.loop.RunBlocking([work = std::move(work), status] { *status = work(); },
                                [self = shared_from_this(), next = std::move(next), status] {
                                  if (self->abandoned_) return;
                                  if (!*status) return self->EndWith(std::move(*status).error());
                                  next();
                                });
}

UnpackRunner::Done Import::Then(std::function<void(const std::string& report)> next) {
  return [self = shared_from_this(), next = std::move(next)](Result<std::string> report) {
    if (self->abandoned_) return;
    if (!report) return self->EndWith(DecodeUnpackError(report.error()));
    next(*report);
  };
}

void Import::Start() {
  auto made = MakeTemporary();
  if (!made) return EndWith(std::move(made).error());
  environment_.runner.SplitArchive(
      archive_.get(), directory_.get(),
      Then([this](const std::string& report) { ReadContents(report); }));
}

Status Import::MakeTemporary() {
  if (::mkdir(environment_.temporary.c_str(), 0700) != 0) {
    return FailSys("mkdir " + environment_.temporary);
  }
  ATOLL_ASSIGN(const UniqueFd parent, sys::Open(environment_.temporary, O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(sys::EnsureDirAt(parent.get(), kMembers, 0777));
  ATOLL_ASSIGN(directory_, sys::OpenBeneath(parent.get(), kMembers, O_RDONLY | O_DIRECTORY));
  // The unpacker runs as another user and cannot enter the parent. It reaches this directory only
  // through the descriptor.
  if (::fchmod(directory_.get(), 0777) != 0) return FailSys("fchmod members");
  return {};
}

void Import::ReadContents(const std::string& report_text) {
  auto report = ParseUnpackReport(report_text);
  if (!report) return EndWith(std::move(report).error());
  archive_.reset();
  OnPool(
      [this, self = shared_from_this()]() -> Status {
        const auto here = [this](const std::string& digest) {
          return environment_.known.contains(digest);
        };
        ATOLL_ASSIGN(contents_, ReadArchiveContents(directory_.get(), name_, here));
        for (const ArchiveContents& contents : contents_) {
          Image& image = images_.emplace_back();
          image.tenant = environment_.tenant;
          image.digest = contents.manifest_digest;
          image.config = contents.config;
          image.facts = contents.facts;
        }
        if (accept_ && images_.size() > 1) {
          return Fail(Code::kInvalidArgument, "the archive holds several images");
        }
        ATOLL_TRY(accept_ ? accept_(images_.front()) : NameImages());
        return PlanLayers();
      },
      [this] { ExtractLayers(); });
}

Status Import::NameImages() {
  if (!name_.empty()) {
    names_.emplace_back(name_, 0);
    return {};
  }
  std::optional<Error> wrong;
  for (size_t i = 0; i < contents_.size(); ++i) {
    const size_t before = names_.size();
    for (const std::string& given : contents_[i].names) {
      auto name = NormaliseImageName(given);
      if (name) {
        names_.emplace_back(*std::move(name), i);
      } else {
        wrong = std::move(name).error();
      }
    }
    if (names_.size() > before) continue;
    if (wrong) return Fail(*std::move(wrong));
    return Fail(Code::kInvalidArgument, contents_.size() == 1
                                            ? "the archive names no image; give a name"
                                            : "the archive holds several images, some without a "
                                              "name; give the name of the wanted image");
  }
  return {};
}

bool Import::Committing(const Image& image) const {
  return committing_ && image.tenant == environment_.tenant &&
         std::any_of(names_.begin(), names_.end(),
                     [&image](const auto& given) { return given.first == image.name; });
}

// Runs on the pool.
Status Import::PlanLayers() {
  std::vector<ArchiveLayer> wanted;
  for (const ArchiveContents& contents : contents_) {
    wanted.insert(wanted.end(), contents.layers.begin(), contents.layers.end());
  }
  for (const ArchiveLayer& layer : wanted) {
    const auto known = environment_.known.find(layer.blob_digest);
    const std::string& diff_id =
        known != environment_.known.end() ? known->second.diff_id : layer.diff_id;
    const auto [entry, inserted] =
        layers_.try_emplace(layer.blob_digest, known != environment_.known.end()
                                                   ? known->second
                                                   : Layer{0, layer.blob_digest, layer.diff_id});
    if (diff_id != layer.diff_id || entry->second.diff_id != layer.diff_id) {
      return Fail(Code::kInvalidArgument, "layer " + layer.blob_digest + ": unpacks to " +
                                              entry->second.diff_id + ", the config says " +
                                              layer.diff_id);
    }
    if (inserted && known == environment_.known.end()) new_layers_.push_back(entry->second);
  }
  if (new_layers_.empty()) return {};
  ATOLL_ASSIGN(Catalog catalog, Catalog::Open(environment_.database));
  ATOLL_ASSIGN(const std::vector<wire::LayerId> ids, catalog.ReserveLayers(new_layers_.size()));
  for (size_t i = 0; i < ids.size(); ++i) new_layers_[i].id = ids[i];
  return {};
}

void Import::ExtractLayers() {
  // Extract may end within the call if it cannot start, and would then call this function again.
  if (std::exchange(filling_, true)) return;
  while (!error_ && extracting_ < kExtractsAtOnce && next_ < new_layers_.size()) Extract(next_++);
  filling_ = false;
  // Layers of a failed import are removed only after no unpacker writes any more.
  if (extracting_ != 0) return;
  error_ ? EndWith(Error(*error_)) : StackLayers();
}

void Import::Extract(size_t index) {
  ++extracting_;
  const auto ended = [self = shared_from_this(), this, index](const Result<std::string>& report) {
    if (abandoned_) return;
    --extracting_;
    Status extracted = Extracted(new_layers_[index], report);
    if (!extracted && !error_) error_ = std::move(extracted).error();
    ExtractLayers();
  };
  const auto blob = OpenBlob(directory_.get(), new_layers_[index].blob_digest);
  if (!blob) return ended(Fail(blob.error()));
  environment_.runner.ExtractLayer(
      blob->get(), new_layers_[index].id, [ended](const Result<std::string>& report) {
        ended(report ? report : Fail(DecodeUnpackError(report.error())));
      });
}

Status Import::Extracted(Layer& layer, const Result<std::string>& text) {
  if (!text) return Fail(text.error());
  ATOLL_ASSIGN(const UnpackReport report, ParseUnpackReport(*text));
  if (report.diff_id != layer.diff_id) {
    return Fail(Code::kInvalidArgument, "layer " + layer.blob_digest +
                                            ": digest mismatch, it unpacks to " + report.diff_id +
                                            ", the config says " + layer.diff_id);
  }
  layer.size_bytes = report.bytes;
  layer.opaque_root = report.opaque_root;
  layer.content = report.content;
  left_out_.devices += report.skipped_devices;
  left_out_.attributes += report.dropped_xattrs;
  left_out_.entries += report.skipped_entries;
  left_out_.owners += report.replaced_owners;
  layers_[layer.blob_digest] = layer;
  return {};
}

void Import::UseLayersOfOthers() {
  std::erase_if(new_layers_, [this](const Layer& layer) {
    const auto other = environment_.others.find(layer.blob_digest);
    if (other == environment_.others.end()) return false;
    to_remove_.push_back(layer.id);
    layers_[layer.blob_digest] = other->second;
    return true;
  });
}

void Import::StackLayers() {
  UseLayersOfOthers();
  std::set<wire::LayerId> used;
  for (size_t i = 0; i < contents_.size(); ++i) {
    Image& image = images_[i];
    image.created_at_ms = environment_.now_ms;
    std::set<wire::LayerId> stacked;
    const std::vector<ArchiveLayer>& layers = contents_[i].layers;
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      const Layer& found = layers_.at(layer->blob_digest);
      // overlayfs refuses the same directory twice. Only the topmost occurrence is kept, because it
      // decides: whatever lies between two occurrences is hidden or repeated by the upper one.
      if (!stacked.insert(found.id).second) continue;
      image.layers.push_back(found.id);
      image.size_bytes += found.size_bytes;
      // overlayfs ignores an opaque mark on the root of a layer, so the layers below it are left
      // out.
      if (found.opaque_root) break;
    }
    used.merge(stacked);
  }
  const auto unused =
      std::stable_partition(new_layers_.begin(), new_layers_.end(),
                            [&](const Layer& layer) { return used.contains(layer.id); });
  for (auto layer = unused; layer != new_layers_.end(); ++layer) to_remove_.push_back(layer->id);
  new_layers_.erase(unused, new_layers_.end());
  next_ = 0;
  PublishNext();
}

void Import::PublishNext() {
  if (next_ == new_layers_.size()) return Commit();
  environment_.runner.PublishLayer(new_layers_[next_++].id,
                                   Then([this](const std::string&) { PublishNext(); }));
}

void Import::Commit() {
  committing_ = true;
  for (const auto& [name, of] : names_) result_.images.emplace_back(images_[of]).name = name;
  OnPool(
      [this, self = shared_from_this()]() -> Status {
        ATOLL_ASSIGN(Catalog catalog, Catalog::Open(environment_.database));
        return catalog.CommitImages(result_.images, new_layers_);
      },
      [this] { RemoveNext(); });
}

void Import::EndWith(Error error) {
  error_ = std::move(error);
  for (const Layer& layer : new_layers_) {
    if (layer.id != 0) to_remove_.push_back(layer.id);
  }
  new_layers_.clear();
  RemoveNext();
}

void Import::RemoveNext() {
  if (to_remove_.empty()) return Cleanup();
  const wire::LayerId layer = to_remove_.back();
  to_remove_.pop_back();
  environment_.runner.RemoveLayer(
      layer, [self = shared_from_this(), this, layer](const Result<std::string>& removed) {
        if (abandoned_) return;
        // A layer that could not be removed stays a leftover in the catalog, and the next start
        // tries again. The import's own error is reported.
        if (!removed) return RemoveNext();
        environment_.loop.RunBlocking(
            [self, this, layer] {
              auto catalog = Catalog::Open(environment_.database);
              if (catalog) [[maybe_unused]]
                const auto forgotten = catalog->ForgetLayer(layer);
            },
            [self, this] {
              if (!abandoned_) RemoveNext();
            });
      });
}

void Import::Cleanup() {
  directory_.reset();
  archive_.reset();
  environment_.loop.RunBlocking(
      [this, self = shared_from_this()] {
        // A misbehaving unpacker may leave files that this user cannot delete. They only cost
        // space, and the next start tries again.
        [[maybe_unused]] const auto removed = sys::RemoveTree(AT_FDCWD, environment_.temporary);
      },
      [this, self = shared_from_this()] {
        if (abandoned_) return;
        const Done done = std::move(done_);
        if (error_) return done(Fail(*std::move(error_)));
        result_.primary = result_.images.empty() ? images_.front() : result_.images.front();
        result_.primary.left_out = left_out_;
        for (const Image& image : result_.images) result_.primary.given_names.push_back(image.name);
        result_.new_layers = std::move(new_layers_);
        done(std::move(result_));
      });
}

}  // namespace atl::images
