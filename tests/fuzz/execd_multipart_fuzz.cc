// Fuzzes the multipart parser behind POST /files/upload. The boundary is "b". The first byte
// chooses how the input is cut into pieces. The parts must not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "execd/files/multipart.h"

namespace {

struct Seen : atl::execd::MultipartParser::Sink {
  atl::Status OnPart(std::string_view name, bool has_filename) override {
    log.append("<").append(name).append(has_filename ? "*:" : ":");
    return {};
  }
  atl::Status OnData(std::string_view bytes) override {
    log.append(bytes);
    return {};
  }
  atl::Status OnPartEnd() override {
    log.append(">");
    return {};
  }
  std::string log;
  bool failed = false;
};

Seen Parse(std::string_view bytes, size_t step) {
  Seen seen;
  atl::execd::MultipartParser parser("b", &seen);
  for (size_t at = 0; at < bytes.size() && !seen.failed; at += step) {
    seen.failed = !parser.Feed(bytes.substr(at, step));
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = Parse(bytes, std::max<size_t>(bytes.size(), 1));
  const Seen pieces = Parse(bytes, static_cast<size_t>(data[0]) + 1);
  if (!whole.failed && !pieces.failed && whole.log != pieces.log) __builtin_trap();

  std::string type("multipart/form-data; ");
  [[maybe_unused]] const auto boundary = atl::execd::MultipartBoundary(type.append(bytes));
  return 0;
}
