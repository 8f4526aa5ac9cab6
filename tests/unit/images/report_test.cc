#include "images/report.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "images/unpack/limits.h"

namespace atl::images {
namespace {

TEST(UnpackReport, SurvivesTheWay) {
  UnpackReport report;
  report.diff_id = "sha256:" + std::string(64, 'a');
  report.content = "sha256:" + std::string(64, 'b');
  report.entries = 7;
  report.bytes = UINT64_MAX;
  report.skipped_devices = 1;
  report.skipped_entries = 2;
  report.dropped_xattrs = 3;
  report.replaced_owners = 4;
  report.opaque_root = true;
  auto parsed = ParseUnpackReport(report.Encode());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->diff_id, report.diff_id);
  EXPECT_EQ(parsed->content, report.content);
  EXPECT_EQ(parsed->bytes, UINT64_MAX);
  EXPECT_EQ(parsed->skipped_devices, 1U);
  EXPECT_EQ(parsed->skipped_entries, 2U);
  EXPECT_EQ(parsed->dropped_xattrs, 3U);
  EXPECT_EQ(parsed->replaced_owners, 4U);
  EXPECT_TRUE(parsed->opaque_root);
}

TEST(UnpackReport, IsTakenAsHostile) {
  const std::string good = UnpackReport{}.Encode();
  for (const std::string& text :
       {std::string(), good + "entries 1\n", good + "x 1\n", good.substr(0, good.size() / 2),
        std::string("diff_id sha256:zz\n"), std::string("content sha256:zz\n"),
        std::string("entries -1\n"), std::string("entries 99999999999999999999\n"),
        std::string("\n"), std::string("bytes 1x\n")}) {
    EXPECT_FALSE(ParseUnpackReport(text)) << text;
  }
}

TEST(UnpackError, CarriesItsCode) {
  const std::string line = EncodeUnpackError(
      Error(Code::kResourceExhausted, "'a\nb\x1b': write: No space left on device"));
  EXPECT_EQ(line, "error resource_exhausted: 'a\\x0ab\\x1b': write: No space left on device\n");
  // The decoder ignores the text that the spawner puts around the line.
  const Error decoded = DecodeUnpackError(Error(Code::kInternal, "unpack 7: " + line + "exit 1"));
  EXPECT_EQ(decoded.code(), Code::kResourceExhausted);
  EXPECT_EQ(decoded.message(), "'a\\x0ab\\x1b': write: No space left on device");
  // A full disk does not make the archive too large.
  const Error full =
      DecodeUnpackError(Error(Code::kInternal, EncodeUnpackError(SysError("write", ENOSPC))));
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(full.error_number(), ENOSPC);
  EXPECT_EQ(decoded.error_number(), 0);
  const Error foreign = DecodeUnpackError(Error(Code::kUnavailable, "killed by \x01 signal"));
  EXPECT_EQ(foreign.code(), Code::kUnavailable);
  EXPECT_EQ(foreign.message(), "killed by \\x01 signal");
  EXPECT_LE(EncodeUnpackError(Error(Code::kInternal, std::string(9999, '\n'))).size(), 512U);
}

TEST(ExtractLimits, AreSetByName) {
  unpack::ExtractLimits limits;
  EXPECT_TRUE(unpack::SetLimit(limits, "max_bytes=12"));
  EXPECT_EQ(limits.max_bytes, 12U);
  for (const char* bad : {"", "max_bytes", "max_bytes=", "max_bytes=1k", "max=1", "=1"}) {
    EXPECT_FALSE(unpack::SetLimit(limits, bad)) << bad;
  }
}

}  // namespace
}  // namespace atl::images
