#include "tools/atoll/client/upgrade.h"

#include <utility>

#include "runtime/http/base_url.h"
#include "runtime/http/head.h"
#include "runtime/http/serialize.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {
namespace {

constexpr size_t kMaxHead = 64 << 10;

}  // namespace

Result<Upgraded> Upgrade(const std::string& base_url, const http::TlsContext* trust,
                         const std::string& target, const std::string& protocol,
                         const http::Headers& headers) {
  ATOLL_ASSIGN(const http::BaseUrl url, http::ParseBaseUrl(base_url));
  ATOLL_ASSIGN(http::ClientSocket socket, http::ClientSocket::Connect(url, trust, -1));
  std::string request = "GET " + url.prefix + target + " HTTP/1.1\r\nHost: " + url.authority +
                        "\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n";
  for (const http::Header& header : headers.list) {
    if (header.value.find_first_of("\r\n") != std::string::npos) {
      return Fail(Code::kInvalidArgument, "the header " + header.name + " contains a line break");
    }
    http::AppendField(header.name, header.value, &request);
  }
  ATOLL_TRY(socket.SendAll(request + "\r\n"));
  http::Buffer input;
  http::HeadScanner scanner;
  auto found = http::HeadScanner::State::kMore;
  while (found == http::HeadScanner::State::kMore) {
    ATOLL_ASSIGN(const bool more, socket.Read(&input));
    if (!more || input.size() > kMaxHead) {
      return Fail(Code::kUnavailable, "the server closed the connection during the handshake");
    }
    found = scanner.Scan(input.view());
  }
  if (found == http::HeadScanner::State::kBad) {
    return Fail(Code::kUnavailable, "the server's answer is not HTTP");
  }
  ATOLL_ASSIGN(http::ResponseHead head,
               http::ParseResponseHead(input.view().substr(0, scanner.size()), false));
  std::string ahead(input.view().substr(scanner.size()));
  if (head.status != 101) {
    return Fail(Code::kUnavailable, "no " + protocol + ": " + ErrorText(head.status, ahead));
  }
  return Upgraded{std::move(socket), std::move(head.headers), std::move(ahead)};
}

}  // namespace atl::cli
