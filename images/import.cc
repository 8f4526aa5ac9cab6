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
// A layer keeps one processor busy. The spawner has room for this many.
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
  // The unpacker is another user, to whom the parent is closed: it gets in by descriptor only.
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
        image_.digest = contents_.manifest_digest;
        image_.config = contents_.config;
        image_.facts = contents_.facts;
        ATOLL_TRY(accept_ ? accept_(image_) : CheckName());
        return PlanLayers();
      },
      [this] { ExtractLayers(); });
}

Status Import::CheckName() {
  if (name_.empty()) {
    if (contents_.ref_name.empty()) {
      return Fail(Code::kInvalidArgument, "the archive names no image; give a name");
    }
    ATOLL_ASSIGN(name_, NormaliseImageName(contents_.ref_name));
  }
  image_.name = name_;
  return {};
}

// On the pool.
Status Import::PlanLayers() {
  for (const ArchiveLayer& layer : contents_.layers) {
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
  // A layer that cannot be begun has ended before the call returns.
  if (std::exchange(filling_, true)) return;
  while (!error_ && extracting_ < kExtractsAtOnce && next_ < new_layers_.size()) Extract(next_++);
  filling_ = false;
  // What has failed is removed when nothing more is written to it.
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
  layers_[layer.blob_digest] = layer;
  return {};
}

void Import::StackLayers() {
  image_.created_at_ms = environment_.now_ms;
  std::set<wire::LayerId> stacked;
  for (auto layer = contents_.layers.rbegin(); layer != contents_.layers.rend(); ++layer) {
    const Layer& found = layers_.at(layer->blob_digest);
    // overlayfs refuses the same directory twice. All that a layer does it does at its topmost
    // place: whatever lies between two occurrences is hidden or kept the same by the upper one.
    if (!stacked.insert(found.id).second) continue;
    image_.layers.push_back(found.id);
    image_.size_bytes += found.size_bytes;
    // overlayfs heeds no opaque mark on a layer's root: what it hides is left out of the stack.
    if (found.opaque_root) break;
  }
  const auto unused =
      std::stable_partition(new_layers_.begin(), new_layers_.end(),
                            [&](const Layer& layer) { return stacked.contains(layer.id); });
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
  OnPool(
      [this, self = shared_from_this()]() -> Status {
        ATOLL_ASSIGN(Catalog catalog, Catalog::Open(environment_.database));
        return accept_ ? catalog.CommitLayers(new_layers_)
                       : catalog.CommitImage(image_, new_layers_);
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
        // A layer that could not be removed stays a leftover of the catalog: the next start tries
        // again. The import's own error is the one to report.
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
        // What a misbehaving unpacker made undeletable for us costs space, not correctness; the
        // next start tries again.
        [[maybe_unused]] const auto removed = sys::RemoveTree(AT_FDCWD, environment_.temporary);
      },
      [this, self = shared_from_this()] {
        if (abandoned_) return;
        const Done done = std::move(done_);
        if (error_) return done(Fail(*std::move(error_)));
        done(ImportResult{std::move(image_), std::move(new_layers_)});
      });
}

}  // namespace atl::images
