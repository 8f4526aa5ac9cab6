// Directories as tar streams: GET and POST /directories/tar, an extension. One request instead of
// one for each file.
#pragma once

#include <memory>

#include "execd/http/exchange.h"
#include "execd/sandbox.h"

namespace atl::execd {

// GET /directories/tar?path=… : the directory's content, names relative to it, as pax tar. Regular
// files, directories and symbolic links; sockets, FIFOs and devices are left out.
void DownloadTar(Sandbox* sandbox, const std::shared_ptr<Exchange>& exchange);

// POST /directories/tar?path=… : a tar (ustar, pax, GNU long names; not compressed) is unpacked
// into the directory, which is created. Names stay beneath it, links in the way included.
void UploadTar(Sandbox* sandbox, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
