#include "execd/files/multipart.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

struct Parts : MultipartParser::Sink {
  Status OnPart(std::string_view name, bool has_filename) override {
    log.append("[").append(name).append(has_filename ? "*]" : "]");
    return {};
  }
  Status OnData(std::string_view bytes) override {
    log.append(bytes);
    return {};
  }
  Status OnPartEnd() override {
    log.append(";");
    return {};
  }
  std::string log;
};

TEST(Multipart, SamePartsAtEveryCut) {
  const std::string_view body =
      "preamble\r\n--XX\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"a;b\"\r\n"
      "\r\n{}\r\n--XX \r\ncontent-disposition: form-data; filename=f; name=file\r\n\r\n"
      "data\r\n--XY\r\n-\r\n--XX\r\nContent-Disposition: form-data; name=value\r\n\r\n"
      "\r\n--XX--\r\nepilogue";
  for (size_t step = 1; step <= body.size(); ++step) {
    Parts parts;
    MultipartParser parser("XX", &parts);
    for (size_t at = 0; at < body.size(); at += step) {
      ASSERT_TRUE(parser.Feed(body.substr(at, step)));
    }
    EXPECT_TRUE(parser.complete());
    EXPECT_EQ(parts.log, "[metadata*]{};[file*]data\r\n--XY\r\n-;[value];") << step;
  }
}

TEST(Multipart, RefusesEndlessHeads) {
  Parts parts;
  MultipartParser parser("XX", &parts);
  ASSERT_TRUE(parser.Feed("--XX\r\n"));
  EXPECT_FALSE(parser.Feed(std::string(MultipartParser::kMaxPartHead + 100, 'x')));
}

TEST(Multipart, Boundary) {
  EXPECT_EQ(MultipartBoundary("multipart/form-data; boundary=abc").value_or(""), "abc");
  EXPECT_EQ(MultipartBoundary("Multipart/Form-Data; charset=x; BOUNDARY=\"a b\"").value_or(""),
            "a b");
  for (const std::string_view type :
       {"", "text/plain", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/mixed; boundary=a"}) {
    EXPECT_FALSE(MultipartBoundary(type)) << type;
  }
}

}  // namespace
}  // namespace atl::execd
