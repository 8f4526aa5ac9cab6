// HTTP/1.1 over one keep-alive connection, as little of it as a measurement needs: blocking socket,
// TCP_NODELAY, one write for a request. It trusts its peer (a daemon of our own): malformed answers
// are errors, not attacks.
//
// Thread rule: one thread per client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

// A blocking connection to `port` of 127.0.0.1.
Result<UniqueFd> ConnectLoopback(uint16_t port);

class LeanClient {
 public:
  // `port` on 127.0.0.1. `headers`, each line with its CRLF, go with every request. A body is JSON
  // unless a request's own headers have another Content-Type.
  static Result<LeanClient> Connect(uint16_t port, std::string headers);

  struct Response {
    int status = 0;
    std::string body;
  };
  Status Send(std::string_view method, std::string_view path, std::string_view headers,
              std::string_view body);
  // Until `text` is in the body. An error status, or a body that ends without it, is an error.
  Status AwaitText(std::string_view text);
  // Until the response is complete.
  Result<Response> Finish();

  // Send and Finish; a status that is not 2xx is an error that quotes the body.
  Result<std::string> Call(std::string_view method, std::string_view path,
                           std::string_view body = {}, std::string_view headers = {});

 private:
  LeanClient(UniqueFd socket, std::string headers)
      : socket_(std::move(socket)), headers_(std::move(headers)) {}
  Status Receive();
  Status Advance();
  Status ReadHead();
  Status ReadChunks();

  UniqueFd socket_;
  std::string headers_;
  std::string received_;  // of the present response, head included
  size_t body_at_ = 0;    // 0: the head is not complete
  size_t at_ = 0;         // chunked: where the next chunk begins
  size_t length_ = 0;     // not chunked: of the body
  bool chunked_ = false;
  bool complete_ = false;
  int status_ = 0;
  std::string body_;
};

}  // namespace atl::bench
