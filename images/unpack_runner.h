// Who runs atoll-unpack: the spawner in the product (only it may create namespaces and files of
// foreign uids), a plain child process in unit tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/wire/layer.h"

namespace atl::images {

// Every call is asynchronous: `done` is called on the loop, exactly once, with what the unpacker
// printed to its report (at most 64 KiB, written by a process that has read hostile input) or with
// an Error whose message is the unpacker's own words. Descriptors are borrowed for the call.
class UnpackRunner {
 public:
  using Done = std::function<void(Result<std::string> report)>;
  virtual ~UnpackRunner() = default;

  // Splits an image archive (`archive`: regular file, read-only) into its members below `directory`
  // (an empty directory that the caller owns and will read).
  virtual void SplitArchive(int archive, int directory, Done done) = 0;
  // Extracts one layer blob (regular file, read-only) into the layer directory `layer`, which is
  // created first and kept unpublished. On failure nothing of it is left.
  virtual void ExtractLayer(int blob, wire::LayerId layer, Done done) = 0;
  // Writes a published layer's tree as a tar (unpack/pack.h) to where `file` stands, which then
  // stands behind it: a regular file, or /dev/null if only the report's digest is wanted.
  virtual void PackLayer(wire::LayerId layer, int file, Done done) = 0;
  // Makes an extracted layer usable by plans, durably.
  virtual void PublishLayer(wire::LayerId layer, Done done) = 0;
  // Removes a layer, published or not. An absent one is not an error.
  virtual void RemoveLayer(wire::LayerId layer, Done done) = 0;
};

}  // namespace atl::images
