// The words that atoll-unpack and the image store exchange through the unpacker's report pipe.
// The store takes them as hostile: the process that wrote them had read a hostile archive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

// "key value" lines; all keys are always there.
struct UnpackReport {
  std::string diff_id;   // "sha256:…" of the uncompressed layer; empty but after a layer
  std::string content;   // of the tar that its tree is packed as, unpack/pack.h; likewise,
                         // and after a pack
  uint64_t entries = 0;  // files and directories written
  uint64_t bytes = 0;    // of their contents
  // What was left out of the layer.
  uint64_t skipped_devices = 0;
  uint64_t skipped_entries = 0;  // of names that no file can have
  uint64_t dropped_xattrs = 0;
  uint64_t replaced_owners = 0;  // entries of users or groups that a sandbox does not have
  bool opaque_root = false;      // the layer hides everything below it

  std::string Encode() const;
};
Result<UnpackReport> ParseUnpackReport(std::string_view text);

// An error as one line, "error CODE: message", at most 512 bytes, nothing but printable ASCII.
std::string EncodeUnpackError(const Error& error);
// Finds such a line in `error`'s message, whatever its carrier put around it, and gives it back
// with its code. Without one: kInternal, made printable.
Error DecodeUnpackError(const Error& error);

// Other people's bytes for a message: printable ASCII as it is, the rest as \xNN, cut to `limit`.
std::string Printable(std::string_view bytes, size_t limit = 200);

}  // namespace atl::images
