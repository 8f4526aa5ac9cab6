// Transfers directories as tar streams by GET and POST /directories/tar, an extension. One request
// replaces one request for each file.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// Writes the entries of a tar in sequence, and the content of each file in pieces.
class TarEntries {
 public:
  // Begins the entry for `name` in `dir`. Writes regular files, directories and symbolic links, and
  // nothing for other types.
  Status Begin(std::string* out, int dir, const std::string& name, std::string path,
               const struct stat& info);
  // True if Continue must be called before the next Begin.
  bool unfinished() const { return static_cast<bool>(file_); }
  // Appends the next piece of the file's content. Pads with zeros if the file shrinks meanwhile, as
  // tar does, because the header has already announced the size.
  void Continue(std::string* out);
  static void End(std::string* out);

 private:
  UniqueFd file_;
  uint64_t left_ = 0, padding_ = 0;
};

// Handles GET /directories/tar?path=…: sends the directory's content as pax tar, with names
// relative to it. Includes regular files, directories and symbolic links; omits sockets, FIFOs and
// devices.
void DownloadTar(Core* core, const std::shared_ptr<Exchange>& exchange);

// Handles POST /directories/tar?path=…: unpacks an uncompressed tar (ustar, pax, GNU long names)
// into the directory, and creates the directory if necessary. No name leads out of the directory,
// not even through symbolic links. With owners=true, unpacks as root and sets the owner and mode of
// each entry.
void UploadTar(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
