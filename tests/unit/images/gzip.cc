#include "tests/unit/images/gzip.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

namespace atl::images {

std::string Compress(const std::string& bytes, const char* with) {
  std::string compressed(bytes.size() + (64 << 10), '\0');
  size_t used = 0;
  struct archive* const writer = archive_write_new();
  EXPECT_EQ(archive_write_add_filter_by_name(writer, with), ARCHIVE_OK);
  archive_write_set_format_raw(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  EXPECT_EQ(archive_write_open_memory(writer, compressed.data(), compressed.size(), &used),
            ARCHIVE_OK);
  struct archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, "data");
  archive_entry_set_filetype(entry, AE_IFREG);
  EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK);
  EXPECT_EQ(archive_write_data(writer, bytes.data(), bytes.size()),
            static_cast<la_ssize_t>(bytes.size()));
  archive_entry_free(entry);
  EXPECT_EQ(archive_write_free(writer), ARCHIVE_OK);
  compressed.resize(used);
  return compressed;
}

std::string Gzip(const std::string& bytes) {
  return Compress(bytes, "gzip");
}

}  // namespace atl::images
