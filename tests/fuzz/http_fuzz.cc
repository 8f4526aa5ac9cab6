// Fuzzes the HTTP heads and body framing that the server reads from clients, and the proxy from
// processes in sandboxes. The first byte chooses the direction and how the input is cut into
// pieces.
//
// Checks that the end of a message does not depend on the cuts, and that an accepted head can be
// written again without a byte that would end a line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/http/body.h"
#include "runtime/http/head.h"

namespace {

using atl::http::BodyDecoder;
using atl::http::Framing;
using atl::http::Headers;
using atl::http::HeadScanner;

// Returns the size of the head, 0 if it is refused, or nothing if it is not complete.
std::optional<size_t> Scan(std::string_view bytes, size_t step) {
  HeadScanner scanner;
  for (size_t seen = std::min(step, bytes.size());; seen = std::min(seen + step, bytes.size())) {
    const auto state = scanner.Scan(bytes.substr(0, seen));
    if (state == HeadScanner::State::kBad) return 0;
    if (state == HeadScanner::State::kComplete) return scanner.size();
    if (seen == bytes.size()) return std::nullopt;
  }
}

struct Body {
  bool ok = true;
  bool done = false;
  std::string bytes;
  size_t consumed = 0;
};

Body Decode(std::string_view wire, const Framing& framing, size_t step) {
  Body out;
  BodyDecoder decoder(framing);
  while (out.consumed < wire.size() && !decoder.done()) {
    std::string piece(wire.substr(out.consumed, step));
    const auto decoded = decoder.Decode(piece.data(), piece.size());
    if (!decoded) {
      out.ok = false;
      return out;
    }
    out.bytes.append(piece, 0, decoded->size);
    out.consumed += decoded->consumed;
  }
  out.done = decoder.done();
  return out;
}

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckFields(const Headers& headers) {
  for (const auto& header : headers.list) {
    Require(atl::http::ValidField(header.name, header.value));
  }
}

void CheckBody(std::string_view wire, const Framing& framing, size_t step) {
  const Body whole = Decode(wire, framing, wire.size() + 1);
  const Body pieces = Decode(wire, framing, step);
  Require(whole.ok == pieces.ok);
  if (!whole.ok) return;
  Require(whole.done == pieces.done && whole.consumed == pieces.consumed &&
          whole.bytes == pieces.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool is_request = (data[0] & 1) != 0;
  const size_t step = 1 + (data[0] >> 1) % 16;
  const auto end = Scan(bytes, bytes.size() + 1);
  Require(Scan(bytes, step) == end);
  if (!end || *end == 0) return 0;
  const std::string_view head = bytes.substr(0, *end);
  if (is_request) {
    const auto parsed = atl::http::ParseRequestHead(head);
    if (!parsed) return 0;
    CheckFields(parsed->request.headers);
    Require(atl::http::ValidTarget(parsed->request.target));
    Require(parsed->body.kind != Framing::Kind::kUntilClose);
    CheckBody(bytes.substr(*end), parsed->body, step);
  } else {
    const auto parsed = atl::http::ParseResponseHead(head, false);
    if (!parsed) return 0;
    CheckFields(parsed->headers);
    Require(atl::http::ValidField("x", parsed->reason));
    CheckBody(bytes.substr(*end), parsed->body, step);
  }
  return 0;
}
