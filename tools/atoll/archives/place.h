// Where 'atoll cp' puts on this host what a sandbox sent. An earlier copy may have planted links
// there, so none is followed beneath what the user named, and a file appears whole or not at all.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::cli {

// A file that is written beside its place and then takes it.
class PlacedFile {
 public:
  // `name` in `directory`, which is borrowed. What is there already is replaced, its mode is kept.
  // kFailedPrecondition: a link or a directory is there. A device or FIFO is written to as it is.
  static Result<PlacedFile> Begin(int directory, const std::string& name);
  PlacedFile(PlacedFile&& other) noexcept;
  PlacedFile& operator=(PlacedFile&&) = delete;
  // Without Finish nothing is left.
  ~PlacedFile();

  int fd() const { return fd_.get(); }
  // Empty, and nobody's yet: holes can be left in it.
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

// Unpacks an archive that a sandbox made into `name` in `directory`, which is made if it is
// missing. Nothing gets out of it: not by "..", an absolute name or a link, in the archive or on
// disk. Set-id bits, owners, devices and hard links are left out.
Status UnpackInto(int archive, int directory, const std::string& name);

}  // namespace atl::cli
