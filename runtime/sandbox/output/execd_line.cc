#include "runtime/sandbox/output/execd_line.h"

#include <sys/socket.h>

#include "runtime/base/unix_address.h"
#include "runtime/wire/output.h"

namespace atl::sandbox {
namespace {

constexpr size_t kMaxHead = 4096;
constexpr std::string_view kSwitched = "HTTP/1.1 101 ";

}  // namespace

Result<UniqueFd> ConnectToExecd(const std::string& execd_socket) {
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(execd_socket));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return FailSys("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect " + execd_socket);
  }
  return socket;
}

Status SendRequest(int socket, std::string_view what, const std::string& access_token,
                   std::string_view body) {
  std::string request(what);
  request.append(" HTTP/1.1\r\nHost: execd\r\n").append(wire::kInternalHeader).append(": 1\r\n");
  if (!access_token.empty()) {
    request.append("X-EXECD-ACCESS-TOKEN: ").append(access_token).append("\r\n");
  }
  if (!body.empty()) {
    request.append("Connection: close\r\nContent-Length: ");
    request.append(std::to_string(body.size())).append("\r\n");
  }
  request.append("\r\n").append(body);
  // The socket's buffer is empty, so the request is sent whole or not at all.
  const ssize_t n = ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  if (n != static_cast<ssize_t>(request.size())) return FailSys("send to execd");
  return {};
}

Status RequestLine(int socket, const std::string& target, const std::string& access_token) {
  return SendRequest(socket, "GET " + target, access_token, {});
}

Result<std::optional<std::string>> LineHead::Take(std::string_view bytes) {
  head_.append(bytes);
  const size_t end = head_.find("\r\n\r\n");
  if (end == std::string::npos && head_.size() < kMaxHead) return std::nullopt;
  if (end == std::string::npos || !head_.starts_with(kSwitched)) {
    return Fail(Code::kUnavailable, "execd answered: " + head_.substr(0, 64));
  }
  return head_.substr(end + 4);
}

}  // namespace atl::sandbox
