// The `volumes` of POST /sandboxes, and the body of POST /volumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/validation.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// One element of the list, its form checked.
struct VolumeRequest {
  std::string name;
  std::string mount_path;
  std::string sub_path;
  std::string source;  // host: the path; pvc: the claim; ossfs: the bucket
  // ossfs
  std::string endpoint, key, secret;
  std::vector<std::string> options;
  enum class Backend { kHost, kClaim, kOssfs } backend = Backend::kHost;
  bool read_only = false;
  bool create_if_missing = true;
  bool delete_with_sandbox = false;
  std::string storage;  // pvc: how much it may hold, if this request creates it; empty: the default
};

// What breaks the form is complained about (422).
std::vector<VolumeRequest> ReadVolumes(const Field& list);

// The rules behind the form, in upstream's order (400), and what is not offered (501). On success
// `mounts` has what the requests say.
std::optional<ApiError> CheckVolumes(const std::vector<VolumeRequest>& requests,
                                     std::vector<sandbox::VolumeMount>* mounts);

// The body of POST /volumes: {"name": NAME, "storage": SIZE}, the second if it is wanted.
struct NewVolume {
  std::string name;
  uint64_t disk_bytes = 0;  // 0: the default
};
Parsed<NewVolume> ParseNewVolume(const std::string& body);

}  // namespace atl::api
