// Writes an image archive: the members of a tar, and the documents that make them an OCI layout. A
// member's head is written last, because its name, a digest, is known only after its content was
// written.
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

// Returns the descriptor by which a document refers to a blob.
nlohmann::json DescriptorJson(const char* type, const std::string& digest, uint64_t size);
// Returns the path of a blob in an OCI layout.
std::string BlobName(const std::string& digest);

class ImageArchive {
 public:
  // `file`: empty, open for reading and writing, borrowed.
  explicit ImageArchive(int file) : file_(file) {}

  // Reserves room for a head. The content is then written to the file by others, who share its
  // offset.
  Status BeginMember();
  Status EndMember(const std::string& name);
  // Call instead of EndMember to remove the member.
  Status DropMember();
  Status AddMember(const std::string& name, const std::string& bytes);
  // Adds the documents of an OCI layout. `manifest` is the digest of the manifest of image `name`.
  Status AddLayout(const std::string& name, const std::string& manifest, uint64_t size);
  Status Finish();

 private:
  const int file_;
  off_t member_ = 0;  // offset of the last member's head
};

}  // namespace atl::images
