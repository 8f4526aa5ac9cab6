// Fuzzes the HTTP grammar of runtime/http/parser.h. With it, execd reads requests of the daemon's
// clients and answers of servers in the sandbox. The first byte chooses the kind and how the input
// is cut into pieces.
//
// Checks that the meaning of the bytes does not depend on the cuts. Otherwise a request could look
// different to two parties.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/http/parser.h"

namespace {

using atl::http::Parser;

struct Seen : Parser::BodySink {
  void OnBody(std::string_view piece) override { body.append(piece); }
  std::string body;
  bool failed = false, done = false;
  size_t used = 0;
  std::string head;
};

Seen Parse(std::string bytes, size_t step, Parser::Kind kind) {
  Parser parser(kind, 4096);
  Seen seen;
  size_t offered = 0;
  while (!parser.done()) {
    const auto used = parser.Feed(bytes.data() + seen.used, offered - seen.used, &seen);
    if (!used) {
      seen.failed = true;
      break;
    }
    if (*used > offered - seen.used) __builtin_trap();
    seen.used += *used;
    if (*used > 0) continue;
    if (offered == bytes.size()) break;
    offered = std::min(offered + step, bytes.size());
  }
  seen.done = parser.done();
  if (parser.head_done()) {
    const auto& head = parser.head();
    seen.head = head.method + " " + head.target + " " + std::to_string(head.status);
    for (const auto& [name, value] : head.headers.list) seen.head += "\n" + name + ": " + value;
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto kind = data[0] & 1 ? Parser::Kind::kResponse : Parser::Kind::kRequest;
  const size_t step = static_cast<size_t>(data[0] >> 1) + 1;
  const Seen whole = Parse(bytes, bytes.size() + 1, kind);
  const Seen pieces = Parse(bytes, step, kind);
  // The run in one piece may notice a limit sooner. If both accept the message, they must agree
  // about it.
  if (whole.done && pieces.done &&
      (whole.body != pieces.body || whole.head != pieces.head || whole.used != pieces.used)) {
    __builtin_trap();
  }
  return 0;
}
