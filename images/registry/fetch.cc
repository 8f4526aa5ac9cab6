#include "images/registry/fetch.h"

#include <sys/statvfs.h>

#include <set>
#include <utility>
#include <vector>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/image_archive.h"
#include "images/oci_layout.h"
#include "runtime/base/sys.h"

namespace atl::images::registry {
namespace {

constexpr char kAccept[] =
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";
// The same limit as for archives.
constexpr int kMaxIndexDepth = 3;

struct Document {
  std::string text;
  bool is_index = false;
};

// Fetches a manifest or index. `which`: a tag or a digest.
Result<Document> FetchManifest(Session& session, const std::string& which) {
  Document document;
  ATOLL_ASSIGN(const http::Headers head,
               session.Get("manifests/" + which, kAccept, [&](std::string_view bytes) {
                 document.text += bytes;
                 return document.text.size() <= kMaxJsonBytes;
               }));
  if (document.text.size() > kMaxJsonBytes) {
    return Fail(Code::kInvalidArgument,
                "the manifest is larger than " + std::to_string(kMaxJsonBytes) + " bytes");
  }
  if (IsSha256Digest(which) && Sha256Of(document.text) != which) {
    return Fail(Code::kInvalidArgument, "the registry sent something else for " + which);
  }
  document.is_index = IsIndexType(head.Get("Content-Type"));
  return document;
}

// Returns the manifest for this host's platform.
Result<std::string> FindManifest(Session& session) {
  std::string which = session.reference().tag;
  for (int depth = 0; depth < kMaxIndexDepth; ++depth) {
    ATOLL_ASSIGN(Document document, FetchManifest(session, which));
    if (!document.is_index) return std::move(document.text);
    ATOLL_ASSIGN(const Descriptor chosen, ChooseManifest(document.text, ""));
    which = chosen.digest;
  }
  return Fail(Code::kInvalidArgument,
              "indexes nested more than " + std::to_string(kMaxIndexDepth) + " deep");
}

// Returns the blobs to be fetched, each once.
std::vector<Descriptor> BlobsOf(const Manifest& manifest, std::set<std::string> here) {
  std::vector<Descriptor> blobs{manifest.config};
  here.insert(manifest.config.digest);
  for (const Descriptor& layer : manifest.layers) {
    if (here.insert(layer.digest).second) blobs.push_back(layer);
  }
  return blobs;
}

Result<uint64_t> CheckRoom(const std::vector<Descriptor>& blobs, int archive, uint64_t max_bytes) {
  uint64_t total = 0;
  for (const Descriptor& blob : blobs) {
    if (blob.size > max_bytes || total > max_bytes - blob.size) {
      return Fail(Code::kResourceExhausted, "it is larger than the " +
                                                std::to_string(max_bytes >> 20) +
                                                " MiB that an image may have");
    }
    total += blob.size;
  }
  struct statvfs info {};
  if (::fstatvfs(archive, &info) != 0) return FailSys("fstatvfs the archive");
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (total >= free) {
    return Fail(Code::kResourceExhausted, "no room: it has " + std::to_string(total >> 20) +
                                              " MiB, " + std::to_string(free >> 20) +
                                              " MiB are free in <data_dir>/state");
  }
  return total;
}

Status FetchBlob(Session& session, const Descriptor& blob, int archive, Amount& amount) {
  uint64_t got = 0;
  Status written;
  const auto take = [&](std::string_view bytes) {
    got += bytes.size();
    if (got > blob.size) return false;
    written = sys::WriteAll(archive, bytes);
    amount.received += bytes.size();
    return written.has_value();
  };
  ATOLL_TRY(session.GetSteadily("blobs/" + blob.digest, take));
  ATOLL_TRY(std::move(written));
  if (got == blob.size) return {};
  return Fail(Code::kInvalidArgument, "the registry sent another number of bytes for " +
                                          blob.digest + " than the " + std::to_string(blob.size) +
                                          " than the manifest says");
}

}  // namespace

Status FetchImage(Session& session, const std::string& name, const std::set<std::string>& here,
                  int archive, uint64_t max_bytes, Amount& amount) {
  ATOLL_ASSIGN(const std::string text, FindManifest(session));
  ATOLL_ASSIGN(const Manifest manifest, ParseManifest(text));
  const std::vector<Descriptor> blobs = BlobsOf(manifest, here);
  ATOLL_ASSIGN(amount.total, CheckRoom(blobs, archive, max_bytes));
  ImageArchive image(archive);
  for (const Descriptor& blob : blobs) {
    ATOLL_TRY(image.BeginMember());
    ATOLL_TRY(FetchBlob(session, blob, archive, amount));
    ATOLL_TRY(image.EndMember(BlobName(blob.digest)));
  }
  const std::string digest = Sha256Of(text);
  ATOLL_TRY(image.AddMember(BlobName(digest), text));
  ATOLL_TRY(image.AddLayout(name, digest, text.size()));
  return image.Finish();
}

}  // namespace atl::images::registry
