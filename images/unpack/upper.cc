#include "images/unpack/upper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "images/unpack/tree_copy.h"
#include "runtime/base/sys.h"
#include "runtime/wire/unpack.h"

namespace atl::images::unpack {
namespace {

// Copied in a few milliseconds, so that another pass ahead would not shorten the pause.
constexpr uint64_t kLittle = 1 << 20;
constexpr size_t kFew = 256;
// A sandbox that writes faster than the copy would never be caught up with.
constexpr int kMostPasses = wire::kMostCopyStops - 1;

// Subtracts the content of `directory` from both budgets. Returns false if a budget does not
// suffice, or if the content is changing.
bool HoldsLittle(int directory, uint64_t* bytes, size_t* entries) {
  const auto names = sys::ListDir(directory);
  if (!names || names->size() > *entries) return false;
  *entries -= names->size();
  for (const std::string& name : *names) {
    struct stat now {};
    if (::fstatat(directory, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const uint64_t size = static_cast<uint64_t>(now.st_blocks) * 512;
    if (size > *bytes) return false;
    *bytes -= size;
    if (!S_ISDIR(now.st_mode)) continue;
    const auto inside = sys::OpenAt(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!inside || !HoldsLittle(inside->get(), bytes, entries)) return false;
  }
  return true;
}

// Runs `act` while the sandbox is paused. Each pause costs the sandbox a millisecond or two, and
// the system calls that it waits for.
template <typename Act>
Status WhilePaused(int conversation, const Act& act) {
  ATOLL_TRY(sys::WriteAll(conversation, wire::kCopyStop));
  char stands = 0;
  if (TEMP_FAILURE_RETRY(::read(conversation, &stands, 1)) != 1) {
    return Fail(Code::kUnavailable, "no process pauses the sandbox");
  }
  ATOLL_TRY(act());
  return sys::WriteAll(conversation, wire::kCopyGoOn);
}

}  // namespace

Result<UnpackReport> CopyUpper(int from, int to, int conversation, const ExtractLimits& limits,
                               bool lasting) {
  // Opened again, because the descriptor of a mount is O_PATH.
  ATOLL_ASSIGN(const UniqueFd upper, sys::OpenAt(from, ".", O_RDONLY | O_DIRECTORY));
  TreeCopy copy(upper.get(), to, limits);
  uint64_t bytes = kLittle;
  size_t entries = kFew;
  const int passes = HoldsLittle(upper.get(), &bytes, &entries) ? 0 : kMostPasses;
  for (int pass = 0; pass < passes; ++pass) {
    ATOLL_TRY(WhilePaused(conversation, [&copy] { return copy.Mark(); }));
    ATOLL_TRY(copy.Pass(false));
    if (copy.copied() <= kLittle) break;
  }
  ATOLL_TRY(WhilePaused(conversation, [&copy] { return copy.Pass(true); }));
  if (lasting && ::syncfs(to) != 0) return FailSys("syncfs");
  UnpackReport report;
  report.entries = copy.entries();
  report.bytes = copy.bytes();
  return report;
}

}  // namespace atl::images::unpack
