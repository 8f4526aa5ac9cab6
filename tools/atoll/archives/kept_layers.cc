#include "tools/atoll/archives/kept_layers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/base/sys.h"

namespace atl::cli {
namespace {

// Checks type and owner, because any user can create something under that name.
Result<UniqueFd> OpenPlace() {
  const std::string path = KeptLayersPlace();
  ATOLL_ASSIGN(UniqueFd place, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info {};
  if (fstat(place.get(), &info) != 0) return FailSys("fstat " + path);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return Fail(Code::kPermissionDenied,
                path + " must belong to you, and nobody else may have rights to it");
  }
  return place;
}

bool Move(int from, int to, const std::string& name, uint64_t size, uint32_t owner) {
  const auto file = sys::OpenAt(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  if (!file || fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 ||
      static_cast<uint64_t>(info.st_size) != size) {
    return false;
  }
  if (geteuid() == 0 && fchown(file->get(), owner, owner) != 0) return false;
  return renameat(from, name.c_str(), to, name.c_str()) == 0;
}

}  // namespace

std::string KeptLayersPlace() {
  const char* given = getenv("TMPDIR");
  return std::string(given != nullptr && *given != '\0' ? given : "/var/tmp") + "/atoll-pull-" +
         std::to_string(geteuid());
}

bool TakeKeptLayer(int blobs, const std::string& name, uint64_t size, uint32_t owner) {
  const auto place = OpenPlace();
  if (!place || !Move(place->get(), blobs, name, size, owner)) return false;
  // Removes the directory if this was the last layer.
  (void)rmdir(KeptLayersPlace().c_str());
  return true;
}

bool KeepLayer(int blobs, const std::string& name, uint64_t size) {
  (void)mkdir(KeptLayersPlace().c_str(), 0700);
  const auto place = OpenPlace();
  const bool kept = place && Move(blobs, place->get(), name, size, geteuid());
  if (!kept) (void)rmdir(KeptLayersPlace().c_str());
  return kept;
}

}  // namespace atl::cli
