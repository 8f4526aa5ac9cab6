// Owning pointers to libarchive's writer and entry.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <memory>

namespace atl::images::unpack {

struct FreeWriter {
  // A writer that was not closed is cut off without an end mark.
  void operator()(archive* writer) const {
    archive_write_fail(writer);
    archive_write_free(writer);
  }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};
using ArchiveWriter = std::unique_ptr<archive, FreeWriter>;
using ArchiveEntry = std::unique_ptr<archive_entry, FreeEntry>;

}  // namespace atl::images::unpack
