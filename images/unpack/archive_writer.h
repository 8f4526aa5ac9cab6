// libarchive's writer and entry, owned.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <memory>

namespace atl::images::unpack {

struct FreeWriter {
  // One that was not closed is cut off, and gets no end.
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
