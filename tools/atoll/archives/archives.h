// Image archives between the server and files or objects of a store, of images and of snapshots:
// what export, import, push and pull share.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Of what the server has.
struct ArchiveOf {
  std::string path;  // of the API, "/images/busybox:latest"
  std::string what;  // for people, "busybox:latest"
  std::string form;  // "oci" or "docker"
};

// Where one is, or is to be.
struct ArchivePlace {
  std::string file;      // or "s3://BUCKET/KEY"
  std::string endpoint;  // of that store; empty: ObjectStore::Open
};
inline constexpr char kArchiveTo[] = "Where to; - is standard output, or s3://BUCKET/KEY";
Option EndpointOption(ArchivePlace& place);

// `write` gets it as it comes; what came at `cancel_fd` ends it.
Status ReceiveArchive(Api& api, const ArchiveOf& wanted, int cancel_fd,
                      const std::function<Status(std::string_view)>& write);
// To a file or an object, which appears whole or not at all; "-" is standard output, unless that is
// a terminal.
Status ExportArchive(Api& api, const ArchiveOf& wanted, const ArchivePlace& place);

// POSTs a file, an OCI layout's directory or an object to `target` of the API; `what` is for
// people.
Result<http::Response> SendArchive(const Settings& settings, const ArchivePlace& place,
                                   const std::string& target, const std::string& what);

}  // namespace atl::cli
