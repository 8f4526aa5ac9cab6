// The `volumes` of POST /sandboxes, and the body of POST /volumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/validation.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// One element of `volumes`, its form checked.
struct VolumeRequest {
  std::string name;
  std::string mount_path;
  std::string sub_path;
  std::string source;  // host: the path; pvc: the claim; ossfs: the bucket
  // only for ossfs:
  std::string endpoint, key, secret;
  std::vector<std::string> options;
  enum class Backend { kHost, kClaim, kOssfs } backend = Backend::kHost;
  bool read_only = false;
  bool create_if_missing = true;
  bool delete_with_sandbox = false;
  std::string storage;  // pvc: size limit if this request creates it; empty: default
};

// Adds a problem for each error of the form (422).
std::vector<VolumeRequest> ReadVolumes(const Field& list);

// Checks the rules beyond the form, in upstream's order (400), and refuses what Atoll does not
// offer (501). On success `mounts` describes the requested mounts.
std::optional<ApiError> CheckVolumes(const std::vector<VolumeRequest>& requests,
                                     std::vector<sandbox::VolumeMount>* mounts);

// The body of POST /volumes: {"name": NAME, "storage": SIZE}; `storage` is optional.
struct NewVolume {
  std::string name;
  uint64_t disk_bytes = 0;  // 0: the default
};
Parsed<NewVolume> ParseNewVolume(const std::string& body);

}  // namespace atl::api
