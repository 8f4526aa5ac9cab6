// Fuzzes the tar reader behind POST /directories/tar. The first byte chooses how the input is cut
// into pieces. The entries must not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "execd/files/tar_format.h"

namespace {

struct Seen : atl::execd::TarReader::Sink {
  atl::Status OnEntry(const atl::execd::TarEntry& entry) override {
    log.append("<" + entry.name + "|" + entry.link + "|" + entry.type);
    left = entry.type == '0' ? entry.size : 0;
    return {};
  }
  atl::Status OnData(std::string_view bytes) override {
    if (bytes.size() > left) __builtin_trap();
    left -= bytes.size();
    log.append(bytes);
    return {};
  }
  atl::Status OnEntryEnd() override {
    if (left != 0) __builtin_trap();
    log.append(">");
    return {};
  }
  std::string log;
  uint64_t left = 0;
  bool failed = false;
};

Seen Read(std::string_view bytes, size_t step) {
  Seen seen;
  atl::execd::TarReader reader(&seen);
  for (size_t at = 0; at < bytes.size() && !seen.failed; at += step) {
    seen.failed = !reader.Feed(bytes.substr(at, step));
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = Read(bytes, std::max<size_t>(bytes.size(), 1));
  const Seen pieces = Read(bytes, static_cast<size_t>(data[0]) + 1);
  if (whole.log != pieces.log || whole.failed != pieces.failed) __builtin_trap();
  return 0;
}
