// WebSocket frames from a terminal's client. The first byte says how the input is cut; the messages
// must be the same however the bytes are cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "execd/http/websocket.h"

namespace {

struct Seen : atl::execd::WebSocketReader::Sink {
  void OnMessage(bool text, std::string_view message) override {
    log.append(text ? "t" : "b").append(message);
  }
  void OnPing(std::string_view payload) override { log.append("p").append(payload); }
  void OnPong() override { log.append("o"); }
  void OnClose(uint16_t code) override { log.append("c" + std::to_string(code)); }
  std::string log;
  bool failed = false;
};

Seen Read(std::string_view bytes, size_t step) {
  Seen seen;
  atl::execd::WebSocketReader reader;
  for (size_t at = 0; at < bytes.size() && !seen.failed; at += step) {
    seen.failed = !reader.Feed(bytes.substr(at, step), &seen);
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
