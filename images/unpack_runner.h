// Runs atoll-unpack. In the product the spawner does it, because only it may create namespaces and
// files of foreign uids. Unit tests use a plain child process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/wire/layer.h"

namespace atl::images {

// Every call is asynchronous. `done` is called on the loop, exactly once, with the unpacker's
// report (at most 64 KiB, written by a process that has read hostile input), or with an Error that
// has the unpacker's own message. Descriptors are borrowed during the call.
class UnpackRunner {
 public:
  using Done = std::function<void(Result<std::string> report)>;
  virtual ~UnpackRunner() = default;

  // Splits an image archive into its members. `archive`: a regular file, read-only. `directory`:
  // empty, owned by the caller, who will read it.
  virtual void SplitArchive(int archive, int directory, Done done) = 0;
  // Extracts one layer blob (a regular file, read-only) into the layer directory `layer`, which is
  // created for it and not published. If it fails, nothing of it is left.
  virtual void ExtractLayer(int blob, wire::LayerId layer, Done done) = 0;
  // Writes a published layer's tree as a tar (unpack/pack.h) at the offset of `file`, and leaves
  // the offset behind it. `file`: a regular file, or /dev/null if only the digest is wanted.
  virtual void PackLayer(wire::LayerId layer, int file, Done done) = 0;
  // Makes an extracted layer usable by plans. Durable.
  virtual void PublishLayer(wire::LayerId layer, Done done) = 0;
  // Removes a layer, published or not. A missing layer is not an error.
  virtual void RemoveLayer(wire::LayerId layer, Done done) = 0;
};

}  // namespace atl::images
