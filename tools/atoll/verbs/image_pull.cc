#include "tools/atoll/verbs/image_pull.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/oci_layout.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/kept_layers.h"
#include "tools/atoll/archives/progress.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using images::Descriptor;
using images::Manifest;

// The same limit as for an archive.
constexpr int kMaxIndexDepth = 3;
constexpr char kLayout[] = "layout";
constexpr char kBlobs[] = "layout/blobs/sha256";

// Removes tag and digest.
std::string RepositoryOf(const std::string& image) {
  const std::string name = image.substr(0, image.find('@'));
  const size_t colon = name.rfind(':');
  const size_t slash = name.rfind('/');
  const bool tagged = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  return tagged ? name.substr(0, colon) : name;
}

struct Wanted {
  std::string source;  // skopeo's source, by digest
  Manifest manifest;   // no layers: an old form, which skopeo converts
};

// Asks the registry what the name means on this host's platform.
Result<Wanted> AskFor(const Skopeo& skopeo, const std::string& image, int cancel_fd) {
  std::string source = "docker://" + image;
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    ATOLL_ASSIGN(const std::string text,
                 RunChild(skopeo.Command("inspect", "", {"--raw", "--", source}), cancel_fd));
    const auto document = images::ParseForeignObject(text, "manifest");
    if (document && document->contains("manifests")) {
      ATOLL_ASSIGN(const Descriptor chosen, images::ChooseManifest(text, ""));
      source = "docker://" + RepositoryOf(image) + "@" + chosen.digest;
      continue;
    }
    auto manifest = images::ParseManifest(text);
    if (!manifest) return Wanted{source, {}};
    return Wanted{"docker://" + RepositoryOf(image) + "@" + images::Sha256Of(text),
                  *std::move(manifest)};
  }
  return Fail(Code::kInvalidArgument,
              "indexes nested more than " + std::to_string(kMaxIndexDepth) + " deep");
}

// Returns the digests of all layers that the server has.
Result<std::set<std::string>> LayersHere(Api& api) {
  std::set<std::string> here;
  ATOLL_ASSIGN(const auto list, Fetch(api, "/images"));
  for (const auto& image : list.value("items", nlohmann::json::array())) {
    const auto told = Fetch(api, "/images/" + PercentEncode(TextOf(image, "name")));
    if (!told) continue;  // removed meanwhile
    for (const auto& layer : told->value("rootfs", nlohmann::json::array())) {
      here.insert(TextOf(layer, "digest"));
    }
  }
  return here;
}

// The OCI layout into which skopeo copies the image. skopeo does not fetch a blob whose file
// already exists.
class Layout {
 public:
  static Result<Layout> Make(const Skopeo& skopeo, const Manifest& manifest,
                             const std::set<std::string>& here) {
    const Workplace& work = skopeo.work();
    ATOLL_ASSIGN(UniqueFd top, work.NewDirectory(kLayout));
    ATOLL_TRY(work.NewDirectory("layout/blobs"));
    ATOLL_ASSIGN(UniqueFd blobs, work.NewDirectory(kBlobs));
    Layout layout(std::move(top), std::move(blobs));
    layout.total_ = manifest.config.size;
    std::set<std::string> seen;
    for (const Descriptor& layer : manifest.layers) {
      if (!seen.insert(layer.digest).second) continue;
      const std::string name = images::HexOf(layer.digest);
      if (here.contains(layer.digest)) {
        // A placeholder of the layer's size, because skopeo may rewrite the manifest from file
        // sizes.
        ATOLL_ASSIGN(const UniqueFd file, work.NewFile(std::string(kBlobs) + "/" + name));
        if (ftruncate(file.get(), static_cast<off_t>(layer.size)) != 0) {
          return FailSys("ftruncate " + name);
        }
        layout.here_.insert(name);
        continue;
      }
      (void)TakeKeptLayer(layout.blobs_.get(), name, layer.size, work.user());
      layout.wanted_.push_back(layer);
      layout.total_ += layer.size;
    }
    return layout;
  }

  // Bytes to fetch, and bytes fetched so far. skopeo writes a blob in the top directory before it
  // moves it to the blobs.
  uint64_t total() const { return total_; }
  uint64_t Arrived() const { return SizeOf(top_.get()) + SizeOf(blobs_.get()); }

  // Removes the placeholders, so that layers which the server has are not sent.
  Status LeaveOutWhatIsHere() const {
    for (const std::string& name : here_) {
      if (unlinkat(blobs_.get(), name.c_str(), 0) != 0) return FailSys("unlink " + name);
    }
    return {};
  }

  // Keeps the complete layers for the next pull, and returns their number.
  size_t Keep() const {
    size_t kept = 0;
    for (const Descriptor& layer : wanted_) {
      if (KeepLayer(blobs_.get(), images::HexOf(layer.digest), layer.size)) ++kept;
    }
    return kept;
  }

 private:
  Layout(UniqueFd top, UniqueFd blobs) : top_(std::move(top)), blobs_(std::move(blobs)) {}

  uint64_t SizeOf(int directory) const {
    uint64_t size = 0;
    const auto names = sys::ListDir(directory);
    if (!names) return 0;
    for (const std::string& name : *names) {
      struct stat info {};
      if (here_.contains(name) ||
          fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
          !S_ISREG(info.st_mode)) {
        continue;
      }
      size += static_cast<uint64_t>(info.st_size);
    }
    return size;
  }

  UniqueFd top_, blobs_;
  std::set<std::string> here_;  // names of the placeholders
  std::vector<Descriptor> wanted_;
  uint64_t total_ = 0;
};

Status CopyMissing(const Skopeo& skopeo, const std::string& source, const std::string& label,
                   const Layout& layout, int cancel_fd) {
  Child copy = skopeo.Command("copy", "src-", {"--", source, std::string("oci:") + kLayout});
  copy.told = isatty(STDERR_FILENO) == 0;
  Progress progress(label, layout.total());
  copy.meanwhile = [&] { progress.Update(layout.Arrived()); };
  copy.meanwhile();  // starts the measurement of the rate
  const auto copied = RunChild(copy, cancel_fd);
  if (copied) return {};
  const size_t kept = layout.Keep();
  if (kept == 0) return Fail(copied.error());
  return Fail(copied.error().code(), copied.error().message() + "; " + std::to_string(kept) +
                                         (kept == 1 ? " layer that has" : " layers that have") +
                                         " arrived " + (kept == 1 ? "is" : "are") + " kept in " +
                                         KeptLayersPlace() + ", the next pull goes on with them");
}

}  // namespace

Status PullImage(const Settings& settings, const RegistryOptions& options,
                 const std::function<Status(const std::string& layout)>& take) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const Skopeo skopeo, Skopeo::Prepare(options));
  ATOLL_ASSIGN(const Wanted wanted, AskFor(skopeo, options.image, cancel_fd));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::set<std::string> here, LayersHere(api));
  ATOLL_ASSIGN(const Layout layout, Layout::Make(skopeo, wanted.manifest, here));
  ATOLL_TRY(CopyMissing(skopeo, wanted.source, "pulling " + options.image, layout, cancel_fd));
  ATOLL_TRY(layout.LeaveOutWhatIsHere());
  return take(skopeo.work().path() + "/" + kLayout);
}

}  // namespace atl::cli
