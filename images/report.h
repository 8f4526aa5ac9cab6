// The messages that atoll-unpack sends to the image store through its report pipe. The store treats
// them as hostile, because their author has read a hostile archive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

// Lines of "key value". All keys are always present.
struct UnpackReport {
  std::string diff_id;  // "sha256:…" of the uncompressed layer; only set after a layer
  // digest of the tar that its tree packs to (unpack/pack.h); only set after a layer and after a
  // pack
  std::string content;
  uint64_t entries = 0;  // number of files and directories written
  uint64_t bytes = 0;    // size of their contents
  // Counts of what was left out of the layer.
  uint64_t skipped_devices = 0;
  uint64_t skipped_entries = 0;  // entries with names that no file can have
  uint64_t dropped_xattrs = 0;
  uint64_t replaced_owners = 0;  // entries of users or groups that a sandbox does not have
  bool opaque_root = false;      // the layer hides everything below it

  std::string Encode() const;
};
Result<UnpackReport> ParseUnpackReport(std::string_view text);

// Returns an error as one line, "error CODE: message", at most 512 bytes of printable ASCII.
std::string EncodeUnpackError(const Error& error);
// Finds such a line in `error`'s message, whatever surrounds it, and returns it with its code. If
// there is none, returns kInternal with the message made printable.
Error DecodeUnpackError(const Error& error);

// Makes untrusted bytes fit for a message: printable ASCII is kept, other bytes become \xNN, and
// the result is cut to `limit`.
std::string Printable(std::string_view bytes, size_t limit = 200);

}  // namespace atl::images
