#include "tools/atoll/web_socket.h"

#include <sys/random.h>

#include <array>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/http/base_url.h"
#include "tools/atoll/text.h"

namespace atl::cli {
namespace {

constexpr size_t kMaxHead = 64 << 10;

template <size_t N>
std::array<char, N> Random() {
  std::array<char, N> bytes{};
  [[maybe_unused]] const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
  return bytes;
}

}  // namespace

// What one Receive brought.
struct WebSocket::Incoming : http::WebSocketReader::Sink {
  Incoming(WebSocket* to, const WebSocket::OnMessage& take) : socket(to), on_message(take) {}
  void OnMessage(bool text, std::string_view message) override { on_message(text, message); }
  void OnPing(std::string_view payload) override {
    if (sent) sent = socket->Send(http::Opcode::kPong, payload);
  }
  void OnPong() override {}
  void OnClose(uint16_t) override { closed = true; }

  WebSocket* socket;
  const WebSocket::OnMessage& on_message;
  Status sent;
  bool closed = false;
};

Result<WebSocket> WebSocket::Connect(const std::string& base_url, const http::TlsContext* trust,
                                     const std::string& target, const http::Headers& headers) {
  ATOLL_ASSIGN(const http::BaseUrl url, http::ParseBaseUrl(base_url));
  ATOLL_ASSIGN(auto connected, http::ClientSocket::Connect(url, trust, -1));
  // Random: a proxy between must not take our frames for another request's.
  const auto random = Random<16>();
  const std::string key = EncodeBase64({random.data(), random.size()});
  std::string request = "GET " + url.prefix + target + " HTTP/1.1\r\nHost: " + url.authority +
                        "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
                        key + "\r\n";
  for (const http::Header& header : headers.list) {
    if (header.value.find_first_of("\r\n") != std::string::npos) {
      return Fail(Code::kInvalidArgument, "the header " + header.name + " holds a line end");
    }
    request += header.name + ": " + header.value + "\r\n";
  }
  WebSocket socket(std::move(connected));
  ATOLL_TRY(socket.Handshake(request + "\r\n", key));
  return socket;
}

Status WebSocket::Handshake(const std::string& request, std::string_view key) {
  ATOLL_TRY(socket_.SendAll(request));
  http::Buffer input;
  http::HeadScanner scanner;
  auto found = http::HeadScanner::State::kMore;
  while (found == http::HeadScanner::State::kMore) {
    ATOLL_ASSIGN(const bool more, socket_.Read(&input));
    if (!more || input.size() > kMaxHead) {
      return Fail(Code::kUnavailable, "the server broke the handshake off");
    }
    found = scanner.Scan(input.view());
  }
  if (found == http::HeadScanner::State::kBad) {
    return Fail(Code::kUnavailable, "the server's answer is not HTTP");
  }
  ATOLL_ASSIGN(const http::ResponseHead head,
               http::ParseResponseHead(input.view().substr(0, scanner.size()), false));
  pending_ = input.view().substr(scanner.size());
  if (head.status != 101) {
    return Fail(Code::kUnavailable, "no terminal: " + std::to_string(head.status) + " " +
                                        Printable(head.reason) + ": " + Printable(pending_));
  }
  if (head.headers.Get("sec-websocket-accept") != http::WebSocketAccept(key)) {
    return Fail(Code::kUnavailable, "the server's answer is not to our WebSocket key");
  }
  return {};
}

Status WebSocket::Send(http::Opcode opcode, std::string_view payload) {
  std::string frame;
  http::AppendMaskedFrame(&frame, opcode, payload, Random<4>());
  return socket_.SendAll(frame);
}

Result<bool> WebSocket::Receive(const OnMessage& on_message) {
  http::Buffer input;
  ATOLL_ASSIGN(const bool open, socket_.ReadSome(&input));
  Incoming incoming(this, on_message);
  for (const std::string_view bytes : {std::string_view(pending_), input.view()}) {
    if (const Status fed = reader_.Feed(bytes, &incoming); !fed) {
      return Fail(Error(fed.error()).Wrap("what the server sent"));
    }
  }
  pending_.clear();
  ATOLL_TRY(incoming.sent);
  return open && !incoming.closed;
}

}  // namespace atl::cli
