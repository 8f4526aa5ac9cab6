// Transfers image archives, of images and of snapshots, between the server and files or objects of
// a store. Shared by export, import, push and pull.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// An archive that the server can make.
struct ArchiveOf {
  std::string path;  // API path, "/images/busybox:latest"
  std::string what;  // name in messages, "busybox:latest"
  std::string form;  // "oci" or "docker"
};

// The source or destination of an archive.
struct ArchivePlace {
  std::string file;      // or "s3://BUCKET/KEY"
  std::string endpoint;  // URL of the store; empty: see ObjectStore::Open
};
inline constexpr char kArchiveTo[] = "Where to; - is standard output, or s3://BUCKET/KEY";
Option EndpointOption(ArchivePlace& place);

// Downloads the archive and passes each piece to `write`. A signal at `cancel_fd` ends the
// download.
Status ReceiveArchive(Api& api, const ArchiveOf& wanted, int cancel_fd,
                      const std::function<Status(std::string_view)>& write);
// Writes the archive to a file or an object, which appears whole or not at all. "-" is standard
// output, which must not be a terminal.
Status ExportArchive(Api& api, const ArchiveOf& wanted, const ArchivePlace& place);

// POSTs a file, the directory of an OCI layout, or an object to `target` of the API. `what` is its
// name in messages.
Result<http::Response> SendArchive(const Settings& settings, const ArchivePlace& place,
                                   const std::string& target, const std::string& what);

}  // namespace atl::cli
