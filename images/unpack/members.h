// The members of an image archive, kept in one flat directory while the archive is read. Only at
// its end is it known which of them belong to an image.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "images/unpack/tar_reader.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images::unpack {

class Members {
 public:
  // `directory`: empty, borrowed.
  explicit Members(int directory) : directory_(directory) {}

  // Stores a member. The names of an OCI layout ("oci-layout", "index.json", "HEX") and
  // "manifest.json" must be regular files and keep their names. All other regular files get names
  // of ours; links are only recorded; everything else is skipped. A duplicate name is refused.
  Status Add(TarReader& reader, struct archive_entry* entry, const std::string& name);

  bool Has(const std::string& path) const { return files_.contains(path); }
  // Opens the member of this path; a link is followed. A link to a link, or out of the archive, is
  // refused.
  Result<UniqueFd> Open(const std::string& path) const;
  // Gives the member the additional name `blob` in the directory. An existing file of that name
  // stays.
  Status Name(const std::string& path, const std::string& blob) const;

  // Deletes files that have only a name of ours. Returns how many files stay.
  Result<uint64_t> Finish();

 private:
  Status AddLink(struct archive_entry* entry, const std::vector<std::string>& path);
  Result<std::string> FileOf(const std::string& path) const;

  int directory_;
  std::map<std::string, std::string> files_;  // path in the archive → name in the directory
  // path in the archive → target path; empty: out of the archive
  std::map<std::string, std::string> links_;
};

}  // namespace atl::images::unpack
