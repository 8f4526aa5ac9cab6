// An image archive as it is written: the members of a tar, and what makes them an OCI layout. For
// whoever knows what a member is only when it stands there: its head is written last.
//
// Thread rule: blocks; one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"

namespace atl::images {

inline constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";

// As documents name each other.
nlohmann::json DescriptorJson(const char* type, const std::string& digest, uint64_t size);
// Where an OCI layout has it.
std::string BlobName(const std::string& digest);

class ImageArchive {
 public:
  // `file`: empty, open for reading and writing, borrowed.
  explicit ImageArchive(int file) : file_(file) {}

  // Leaves room for the head of what is then written to the file, by whomever: its place is shared.
  Status BeginMember();
  Status EndMember(const std::string& name);
  // In place of EndMember: as if it had not been begun.
  Status DropMember();
  Status AddMember(const std::string& name, const std::string& bytes);
  // What makes an OCI layout of the blobs: `name` is the image whose manifest has that digest.
  Status AddLayout(const std::string& name, const std::string& manifest, uint64_t size);
  Status Finish();

 private:
  const int file_;
  off_t member_ = 0;  // where the last member's head is
};

}  // namespace atl::images
