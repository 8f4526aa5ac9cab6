#include "images/unpack/split.h"

#include <string>

#include "images/unpack/docker_archive.h"
#include "images/unpack/members.h"
#include "images/unpack/tar_reader.h"

namespace atl::images::unpack {

Result<UnpackReport> SplitArchive(int input, int directory, const ExtractLimits& limits) {
  auto reader = TarReader::Open(input, limits);
  if (!reader) {
    return Fail(std::move(reader).error().Wrap(
        "not an image archive (tar, tar.gz, tar.zst, tar.xz or tar.bz2)"));
  }
  Members members(directory);
  for (uint64_t seen = 0;; ++seen) {
    ATOLL_ASSIGN(struct archive_entry* const entry, reader->Next());
    if (entry == nullptr) break;
    if (seen == limits.max_members) {
      return Fail(Code::kResourceExhausted, "the archive has more than the " +
                                                std::to_string(limits.max_members) +
                                                " members allowed");
    }
    ATOLL_ASSIGN(const std::string name, EntryName(entry));
    auto added = members.Add(*reader, entry, name);
    if (!added) return Fail(std::move(added).error().Wrap("'" + Printable(name) + "'"));
  }
  if (!members.Has("index.json") && members.Has("manifest.json")) {
    ATOLL_TRY(WriteOciLayout(members, directory));
  }
  UnpackReport report;
  report.bytes = reader->content_bytes();
  ATOLL_ASSIGN(report.entries, members.Finish());
  return report;
}

}  // namespace atl::images::unpack
