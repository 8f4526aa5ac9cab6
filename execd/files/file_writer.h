// Replaces a file of the sandbox, so that readers see either the old or the new content.
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

// Writes the content to a temporary file in the same directory. Commit gives it the old file's mode
// and owner and renames it over the old file. Where the file must stay the same inode, Commit
// copies the content into it instead:
// - the path is a symbolic link;
// - the file has several names;
// - the user may not create files in the directory (the temporary file is then in /tmp);
// - the file is a mount point (rename fails with EBUSY).
//
// Does not call fsync, because a sandbox does not survive its host, and because fsync would delay
// all other requests.
class FileWriter {
 public:
  // Creates missing parents with the owner of `permission`. Fails if the path leads to anything but
  // a regular file, or to a file that the actor may not write: the rename alone would need write
  // permission on the directory only.
  static Result<std::unique_ptr<FileWriter>> Open(Core* core, Actor actor, const std::string& path,
                                                  const Permission& permission = {});
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  // Deletes the temporary file. Without Commit the old file is unchanged.
  ~FileWriter();

  Status Write(std::string_view bytes);
  Status Commit(const Permission& permission);

  // Prefix of temporary files.
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
  std::string temporary_;  // its name in temporary_dir_; empty once it has been renamed
  UniqueFd file_;
  bool existed_ = false;
  bool in_place_ = false;
  struct stat before_ {};
  uint64_t written_ = 0, flushed_ = 0;
};

}  // namespace atl::execd
