// Directories as tar streams: GET and POST /directories/tar, an extension. One request instead of
// one for each file.
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

// What goes into a tar: one entry after the other, and a file's content piece by piece.
class TarEntries {
 public:
  // `name` in `dir`, which is a regular file, directory or symbolic link; of others nothing is
  // written.
  Status Begin(std::string* out, int dir, const std::string& name, std::string path,
               const struct stat& info);
  // Whether Continue is to be called before the next Begin.
  bool unfinished() const { return static_cast<bool>(file_); }
  // A file that shrinks meanwhile is filled up with zeros, as tar does it: the size is promised.
  void Continue(std::string* out);
  static void End(std::string* out);

 private:
  UniqueFd file_;
  uint64_t left_ = 0, padding_ = 0;
};

// GET /directories/tar?path=… : the directory's content, names relative to it, as pax tar. Regular
// files, directories and symbolic links; sockets, FIFOs and devices are left out.
void DownloadTar(Core* core, const std::shared_ptr<Exchange>& exchange);

// POST /directories/tar?path=… : a tar (ustar, pax, GNU long names; not compressed) is unpacked
// into the directory, which is created. Names stay beneath it, links in the way included. With
// owners=true as root, and what is made gets the tar's owner and mode.
void UploadTar(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
