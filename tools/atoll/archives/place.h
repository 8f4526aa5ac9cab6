// Writes files that 'atoll cp' copies from a sandbox to this host. An earlier copy may have planted
// links there, so no link below the directory that the user named is followed. A file appears whole
// or not at all.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::cli {

// A file that is written under a temporary name and then renamed to its place.
class PlacedFile {
 public:
  // Begins `name` in `directory`, which is borrowed. An existing file is replaced, and its mode is
  // kept. kFailedPrecondition: `name` is a link or a directory. A device or FIFO is opened and
  // written directly.
  static Result<PlacedFile> Begin(int directory, const std::string& name);
  PlacedFile(PlacedFile&& other) noexcept;
  PlacedFile& operator=(PlacedFile&&) = delete;
  // Without Finish, removes the temporary file.
  ~PlacedFile();

  int fd() const { return fd_.get(); }
  // True: the file is new and empty, so the writer may leave holes in it.
  bool fresh() const { return !temporary_.empty(); }
  Status Finish();

 private:
  PlacedFile(int directory, std::string name, std::string temporary, UniqueFd fd)
      : directory_(directory),
        name_(std::move(name)),
        temporary_(std::move(temporary)),
        fd_(std::move(fd)) {}

  int directory_;
  std::string name_;
  std::string temporary_;  // empty: written in place
  UniqueFd fd_;
};

// Unpacks an archive made by a sandbox into `name` in `directory`, and creates that directory if it
// is missing. Nothing is written outside: "..", absolute names and links, in the archive or on
// disk, cannot escape. Set-id bits, owners, devices and hard links are left out.
Status UnpackInto(int archive, int directory, const std::string& name);

}  // namespace atl::cli
