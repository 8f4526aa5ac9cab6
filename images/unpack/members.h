// The members of an image archive, kept in one flat directory while the archive is read, because
// which of them belong to an image shows only at its end.
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

  // What an OCI layout names goes to a file of that name ("oci-layout", "index.json", "HEX"),
  // "manifest.json" too, and must be regular. All other regular files go to files of ours; links
  // are only remembered; the rest is passed over. A name that comes twice is refused.
  Status Add(TarReader& reader, struct archive_entry* entry, const std::string& name);

  bool Has(const std::string& path) const { return files_.contains(path); }
  // Opens the member of this path of the archive; if that is a link, what it leads to. A link to a
  // link, or out of the archive, is refused.
  Result<UniqueFd> Open(const std::string& path) const;
  // Gives that member the name `blob` in the directory too; one that is there already stays.
  Status Name(const std::string& path, const std::string& blob) const;

  // Takes away what has none but our own name, and returns how many files stay.
  Result<uint64_t> Finish();

 private:
  Status AddLink(struct archive_entry* entry, const std::vector<std::string>& path);
  Result<std::string> FileOf(const std::string& path) const;

  int directory_;
  std::map<std::string, std::string> files_;  // path in the archive → name in the directory
  std::map<std::string, std::string> links_;  // path in the archive → path, empty: out of it
};

}  // namespace atl::images::unpack
