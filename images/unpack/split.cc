#include "images/unpack/split.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "images/unpack/entry_path.h"
#include "images/unpack/tar_reader.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

constexpr int64_t kMaxIndexBytes = 4 << 20;

bool IsHexDigest(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The flat name of a member, empty if it is none of ours.
std::string MemberName(const std::vector<std::string>& path) {
  if (path.size() == 1 && (path[0] == "oci-layout" || path[0] == "index.json")) return path[0];
  if (path.size() == 3 && path[0] == "blobs" && path[1] == "sha256" && IsHexDigest(path[2])) {
    return path[2];
  }
  return {};
}

Status WriteMember(TarReader& reader, struct archive_entry* entry, int directory,
                   const std::string& name) {
  if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr) {
    return Fail(Code::kInvalidArgument, "not a regular file");
  }
  if (name == "index.json" && archive_entry_size(entry) > kMaxIndexBytes) {
    return Fail(Code::kResourceExhausted,
                "larger than the " + std::to_string(kMaxIndexBytes) + " bytes allowed");
  }
  auto file = sys::OpenBeneath(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (!file && file.error().error_number() == EEXIST) {
    return Fail(Code::kInvalidArgument, "the archive holds it twice");
  }
  if (!file) return Fail(std::move(file).error());
  return reader.CopyContent(entry, file->get());
}

}  // namespace

Result<UnpackReport> SplitArchive(int input, int directory, const ExtractLimits& limits) {
  UnpackReport report;
  auto reader = TarReader::Open(input, limits);
  if (!reader) {
    return Fail(std::move(reader).error().Wrap("not an image archive (tar or tar.gz)"));
  }
  for (uint64_t seen = 0;; ++seen) {
    ATOLL_ASSIGN(struct archive_entry* const entry, reader->Next());
    if (entry == nullptr) break;
    if (seen == limits.max_members) {
      return Fail(Code::kResourceExhausted, "the archive has more than the " +
                                                std::to_string(limits.max_members) +
                                                " members allowed");
    }
    ATOLL_ASSIGN(const std::string name, EntryName(entry));
    auto path = ParseEntryPath(name);
    if (!path) return Fail(std::move(path).error().Wrap("'" + Printable(name) + "'"));
    if (path->size() == 1 && path->front() == "manifest.json") report.docker_legacy = true;
    const std::string member = MemberName(*path);
    if (member.empty()) continue;
    auto written = WriteMember(*reader, entry, directory, member);
    if (!written) return Fail(std::move(written).error().Wrap("'" + Printable(name) + "'"));
    ++report.entries;
  }
  report.bytes = reader->content_bytes();
  return report;
}

}  // namespace atl::images::unpack
