// Writes a file of the sandbox's so that whoever reads it sees the old content or the new one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "execd/core/core.h"
#include "execd/files/files.h"
#include "runtime/base/result.h"

namespace atl::execd {

// The content goes into a temporary name beside the file, which Commit renames over it, with mode
// and owner of the file that was there. Where the identity of the file counts, Commit copies the
// content into it instead: through a symbolic link, into a file with several names, into one in a
// directory where the user may not create (the temporary is then in /tmp), and onto a mount point
// (rename gives EBUSY).
//
// No fsync: a sandbox dies with its host, and the call would hold up everybody else's requests.
class FileWriter {
 public:
  // Parents are created, with the owner of `permission`. Anything but a regular file in the place
  // is an error, and so is one that the actor may not write: a rename over it would need no more
  // than its directory.
  static Result<std::unique_ptr<FileWriter>> Open(Core* core, Actor actor, const std::string& path,
                                                  const Permission& permission = {});
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  // Without Commit nothing has happened.
  ~FileWriter();

  Status Write(std::string_view bytes);
  Status Commit(const Permission& permission);

  // Names that begin so are ours, for the time of a write.
  static constexpr std::string_view kTemporaryPrefix = ".execd-upload-";

 private:
  FileWriter(Core* core, Actor actor) : core_(*core), actor_(std::move(actor)) {}
  Status OpenTemporary();
  Status CopyInPlace();
  Result<bool> Exchange();

  Core& core_;
  const Actor actor_;
  std::string path_;
  Place place_;
  UniqueFd temporary_dir_;
  std::string temporary_;  // its name there; empty once it has become the file
  UniqueFd file_;
  bool existed_ = false;
  bool in_place_ = false;
  struct stat before_ {};
  uint64_t written_ = 0, flushed_ = 0;
};

}  // namespace atl::execd
