#include "runtime/base/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/sys.h"

namespace atl {

Result<std::string> ReadPlainFileAt(int dirfd, const std::string& path, size_t limit,
                                    std::span<const uid_t> owners) {
  const auto refuse = [&path](const std::string& why) {
    return Fail(Code::kFailedPrecondition,
                path + " " + why + ": remove it, or put a regular file there");
  };
  // O_NONBLOCK, because opening a FIFO would block.
  auto file = sys::OpenAt(dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!file && file.error().error_number() == ELOOP) return refuse("is a link");
  if (!file) return Fail(std::move(file).error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode)) return refuse("is not a regular file");
  if (info.st_nlink > 1) return refuse("has another name too");
  if (!owners.empty() && std::find(owners.begin(), owners.end(), info.st_uid) == owners.end()) {
    return refuse("belongs to uid " + std::to_string(info.st_uid));
  }
  auto bytes = sys::ReadAll(file->get(), limit);
  if (!bytes) return Fail(std::move(bytes).error().Wrap(path));
  return bytes;
}

Status CheckWriters(const std::string& path, const struct stat& info,
                    std::initializer_list<uid_t> owners) {
  const bool owned = std::find(owners.begin(), owners.end(), info.st_uid) != owners.end();
  if (owned && (info.st_mode & 0022) == 0) return {};
  return Fail(Code::kFailedPrecondition,
              path + " can be changed by users other than root: chown root " + path +
                  " && chmod go-w " + path);
}

}  // namespace atl
