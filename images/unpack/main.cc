// atoll-unpack split|layer|copy|fork|pack [LIMIT=NUMBER…]: opens one hostile archive, or the
// directory that a sandbox writes to, and fills one directory; or writes one directory into an
// archive. list|archive: reports how two stacks of layers differ. The spawner starts it in
// namespaces of its own, with the descriptors of runtime/wire/spawner.h. The report goes to the
// pipe. Exit status 0, or 1 with one line "error CODE: why".
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <clocale>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "images/report.h"
#include "images/unpack/confine.h"
#include "images/unpack/diff.h"
#include "images/unpack/layer.h"
#include "images/unpack/limits.h"
#include "images/unpack/pack.h"
#include "images/unpack/split.h"
#include "images/unpack/stream.h"
#include "images/unpack/upper.h"
#include "runtime/base/disk_full.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/unpack.h"

namespace atl::images::unpack {
namespace {

bool IsCopy(std::string_view mode) {
  return mode == "copy" || mode == "fork";
}

bool IsDiff(std::string_view mode) {
  return mode == "list" || mode == "archive";
}

// Parses "now=3" and similar arguments.
Status SetStacks(Stacks& stacks, std::string_view argument) {
  constexpr uint64_t kMost = 2 * wire::kMaxLayers + 1;
  uint64_t now = stacks.now, was = stacks.was, both = stacks.both;
  ATOLL_TRY(SetNumber({{"now", &now}, {"was", &was}, {"both", &both}}, argument));
  if (now > kMost || was > kMost || both > kMost) {
    return Fail(Code::kInvalidArgument, "too many layers: '" + std::string(argument) + "'");
  }
  stacks.now = now;
  stacks.was = was;
  stacks.both = both;
  return {};
}

Result<UnpackReport> Run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode != "split" && mode != "layer" && mode != "pack" && !IsCopy(mode) && !IsDiff(mode)) {
    return Fail(Code::kInvalidArgument,
                "usage: atoll-unpack split|layer|copy|fork|pack|list|archive [KEY=NUMBER...]");
  }
  ExtractLimits limits;
  Stacks stacks;
  for (int i = 2; i < argc; ++i) {
    ATOLL_TRY(IsDiff(mode) ? SetStacks(stacks, argv[i]) : SetLimit(limits, argv[i]));
  }
  // libarchive converts PAX names, which are UTF-8, with iconv(3) unless the locale is UTF-8. iconv
  // would need its tables, which are not reachable after the confinement.
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) {
    return Fail(Code::kUnavailable, "setlocale C.UTF-8: the locale is missing (libc-bin)");
  }
  ATOLL_TRY(BlobStream::Prepare());
  ATOLL_TRY(Confine(wire::kUnpackInputFd, wire::kUnpackOutputFd, wire::kUnpackReportFd, limits,
                    IsCopy(mode)     ? Job::kCopy
                    : IsDiff(mode)   ? Job::kDiff
                    : mode == "pack" ? Job::kPack
                                     : Job::kUnpack,
                    stacks.size()));

  // The root directory is the output now (for "pack", the input). It is opened again, because the
  // given descriptor may be O_PATH.
  ATOLL_ASSIGN(UniqueFd root, sys::Open("/", O_RDONLY | O_DIRECTORY));
  if (mode == "list") return ListDiff(stacks, wire::kUnpackInputFd, limits);
  if (mode == "archive") return ArchiveDiff(stacks, wire::kUnpackInputFd, limits);
  if (mode == "split") return SplitArchive(wire::kUnpackInputFd, root.get(), limits);
  if (IsCopy(mode)) {
    return CopyUpper(wire::kUnpackInputFd, root.get(), wire::kUnpackReportFd, limits,
                     mode == "copy");
  }
  if (mode == "pack") return PackTree(root.get(), wire::kUnpackInputFd, limits);
  return ExtractLayer(wire::kUnpackInputFd, std::move(root), limits);
}

std::string Mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

// Adds to a full disk's error which file system it is, and how much space is needed at least:
// compressed data needs more.
Error NoRoom(Error error, std::string_view mode) {
  struct statfs room {};
  struct stat input {};
  if (!IsDiskFull(error)) return error;
  const bool pack = mode == "pack";
  // The root directory is the output; for "pack" it is the file.
  const auto root = sys::Open("/", O_RDONLY | O_DIRECTORY);
  if (!root || ::fstatfs(pack ? wire::kUnpackInputFd : root->get(), &room) != 0 ||
      ::fstat(wire::kUnpackInputFd, &input) != 0) {
    return error;
  }
  const auto block = static_cast<uint64_t>(room.f_bsize);
  const bool split = mode == "split";
  const std::string needed = IsCopy(mode) || pack
                                 ? ""
                                 : (split ? "the archive has " : "the layer's blob has ") +
                                       Mebibytes(static_cast<uint64_t>(input.st_size)) +
                                       " and needs at least as much; ";
  return Error(error.code(),
               std::string("no room on the file system of ") +
                   (split || pack ? "<data_dir>/state" : "<data_dir>/store") + ": " + needed +
                   Mebibytes(room.f_bavail * block) + " of " + Mebibytes(room.f_blocks * block) +
                   " and " + std::to_string(room.f_ffree) + " inodes were left when it stopped (" +
                   error.message() + ")",
               error.error_number());
}

[[noreturn]] void OutOfMemory() {
  constexpr std::string_view kLine =
      "error resource_exhausted: the archive needs more memory than allowed\n";
  [[maybe_unused]] const auto written = sys::WriteAll(wire::kUnpackReportFd, kLine);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace
}  // namespace atl::images::unpack

int main(int argc, char** argv) {
  using namespace atl;
  OpenStandardStreams();
  std::set_new_handler(images::unpack::OutOfMemory);
  auto report = images::unpack::Run(argc, argv);
  if (!report)
    report = Fail(images::unpack::NoRoom(std::move(report).error(), argc > 1 ? argv[1] : ""));
  const auto written = sys::WriteAll(
      wire::kUnpackReportFd, report ? report->Encode() : images::EncodeUnpackError(report.error()));
  return report && written ? EXIT_SUCCESS : EXIT_FAILURE;
}
