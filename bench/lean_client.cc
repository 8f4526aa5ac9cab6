#include "bench/lean_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <charconv>

namespace atl::bench {
namespace {

// Longer than any answer takes, so that a daemon that hangs ends the run.
constexpr timeval kPatience{60, 0};

Status SetOption(int socket, int level, int name, const void* value, socklen_t size) {
  if (::setsockopt(socket, level, name, value, size) != 0) return FailSys("setsockopt");
  return {};
}

Result<size_t> Number(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) {
    return Fail(Code::kInternal,
                "response: no number in '" + std::string(text.substr(0, 40)) + "'");
  }
  return value;
}

}  // namespace

Result<UniqueFd> ConnectLoopback(uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect 127.0.0.1:" + std::to_string(port));
  }
  return socket;
}

Result<LeanClient> LeanClient::Connect(uint16_t port, std::string headers) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectLoopback(port));
  const int on = 1;
  ATOLL_TRY(SetOption(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  ATOLL_TRY(SetOption(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience));
  headers.append("Host: 127.0.0.1:" + std::to_string(port) + "\r\n");
  return LeanClient(std::move(socket), std::move(headers));
}

Status LeanClient::Send(std::string_view method, std::string_view path, std::string_view headers,
                        std::string_view body) {
  received_.clear();
  body_.clear();
  body_at_ = at_ = length_ = 0;
  chunked_ = complete_ = false;
  std::string request;
  request.reserve(512 + body.size());
  request.append(method).append(" ").append(path).append(" HTTP/1.1\r\n");
  request.append(headers_).append(headers);
  if (!body.empty()) {
    if (headers.find("Content-Type: ") == std::string_view::npos) {
      request.append("Content-Type: application/json\r\n");
    }
    request.append("Content-Length: ");
    request.append(std::to_string(body.size())).append("\r\n");
  }
  request.append("\r\n").append(body);
  for (std::string_view rest = request; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) return FailSys("send " + std::string(path));
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Status LeanClient::Receive() {
  char buffer[16 << 10];
  const ssize_t size = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (size < 0) return FailSys("recv");
  if (size == 0) return Fail(Code::kUnavailable, "the daemon closed the connection");
  received_.append(buffer, static_cast<size_t>(size));
  return Advance();
}

Status LeanClient::Advance() {
  if (body_at_ == 0) ATOLL_TRY(ReadHead());
  if (body_at_ == 0) return {};
  if (chunked_) return ReadChunks();
  complete_ = received_.size() >= body_at_ + length_;
  if (complete_) body_ = received_.substr(body_at_, length_);
  return {};
}

Status LeanClient::ReadHead() {
  const size_t end = received_.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  const std::string_view head(received_.data(), end + 2);
  ATOLL_ASSIGN(const size_t status, Number(head.substr(9, 3), 10));  // "HTTP/1.1 200"
  status_ = static_cast<int>(status);
  chunked_ = head.find("\r\nTransfer-Encoding: chunked\r\n") != std::string_view::npos;
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t length = head.find(kLength);
  if (length != std::string_view::npos) {
    ATOLL_ASSIGN(length_, Number(head.substr(length + kLength.size()), 10));
  }
  body_at_ = at_ = end + 4;
  return {};
}

Status LeanClient::ReadChunks() {
  while (!complete_) {
    const size_t line = received_.find("\r\n", at_);
    if (line == std::string::npos) return {};
    ATOLL_ASSIGN(const size_t size, Number(std::string_view(received_).substr(at_), 16));
    if (received_.size() < line + 2 + size + 2) return {};
    body_.append(received_, line + 2, size);
    at_ = line + 2 + size + 2;
    complete_ = size == 0;
  }
  return {};
}

Status LeanClient::AwaitText(std::string_view text) {
  while (true) {
    const bool good = body_at_ != 0 && status_ < 300;
    if (good && received_.find(text, body_at_) != std::string::npos) return {};
    if (complete_) {
      return Fail(Code::kInternal, "no " + std::string(text) + " in the answer, status " +
                                       std::to_string(status_) + ": " + body_);
    }
    ATOLL_TRY(Receive());
  }
}

Result<LeanClient::Response> LeanClient::Finish() {
  while (!complete_) ATOLL_TRY(Receive());
  return Response{status_, std::move(body_)};
}

Result<std::string> LeanClient::Call(std::string_view method, std::string_view path,
                                     std::string_view body, std::string_view headers) {
  ATOLL_TRY(Send(method, path, headers, body));
  ATOLL_ASSIGN(Response response, Finish());
  if (response.status / 100 != 2) {
    return Fail(Code::kInternal, std::string(method) + " " + std::string(path) + ": status " +
                                     std::to_string(response.status) + " " + response.body);
  }
  return std::move(response.body);
}

}  // namespace atl::bench
