// Fuzzes WebSocket frames from either end. The first byte chooses the end and how the input is cut
// into pieces. The messages must not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/http/websocket.h"

namespace {

using atl::http::WebSocketReader;

struct Seen : WebSocketReader::Sink {
  void OnMessage(bool text, std::string_view message) override {
    log.append(text ? "t" : "b").append(message);
  }
  void OnPing(std::string_view payload) override { log.append("p").append(payload); }
  void OnPong() override { log.append("o"); }
  void OnClose(uint16_t code) override { log.append("c" + std::to_string(code)); }
  std::string log;
  bool failed = false;
};

Seen Read(std::string_view bytes, size_t step, WebSocketReader::From from) {
  Seen seen;
  WebSocketReader reader(from, 1 << 20);
  for (size_t at = 0; at < bytes.size() && !seen.failed; at += step) {
    seen.failed = !reader.Feed(bytes.substr(at, step), &seen);
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto from =
      data[0] & 0x80 ? WebSocketReader::From::kServer : WebSocketReader::From::kClient;
  const Seen whole = Read(bytes, std::max<size_t>(bytes.size(), 1), from);
  const Seen pieces = Read(bytes, static_cast<size_t>(data[0] & 0x7f) + 1, from);
  if (whole.log != pieces.log || whole.failed != pieces.failed) __builtin_trap();
  return 0;
}
