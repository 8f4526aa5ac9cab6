// Prints how our HTTP grammar reads the bytes of a connection, for comparison with foreign parsers.
//
// Input: four bytes of size, little endian, and that many bytes, repeated. Output: one line for
// each: "METHOD TARGET BODY" (the body in hexadecimal) for each whole message, separated by tabs,
// and then "ok" if nothing was refused, or "refused: " with the reason.
#include <array>
#include <cstdio>
#include <string>

#include "runtime/http/parser.h"

namespace {

using atl::http::Parser;

struct Body : Parser::BodySink {
  void OnBody(std::string_view piece) override {
    for (const char c : piece) {
      char digits[3];
      (void)std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      hex += digits;
    }
  }
  std::string hex;
};

std::string Verdict(std::string bytes) {
  std::string out;
  size_t at = 0;
  while (true) {
    Parser parser(Parser::Kind::kRequest, size_t{16} << 10);
    Body body;
    while (at < bytes.size() && !parser.done()) {
      const auto used = parser.Feed(bytes.data() + at, bytes.size() - at, &body);
      if (!used) return out + "refused: " + used.error().message();
      if (*used == 0) break;
      at += *used;
    }
    if (!parser.done()) return out + "ok";
    out += parser.head().method + " " + parser.head().target + " " + body.hex + "\t";
    if (!parser.head().keep_alive) return out + "ok";
  }
}

}  // namespace

int main() {
  std::array<unsigned char, 4> size{};
  while (std::fread(size.data(), 1, size.size(), stdin) == size.size()) {
    std::string bytes(size[0] | size_t{size[1]} << 8 | size_t{size[2]} << 16, '\0');
    if (std::fread(bytes.data(), 1, bytes.size(), stdin) != bytes.size()) return 1;
    const std::string line = Verdict(std::move(bytes)) + "\n";
    (void)std::fwrite(line.data(), 1, line.size(), stdout);
    (void)std::fflush(stdout);
  }
}
