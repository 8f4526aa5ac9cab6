// A minimal HTTP/1.1 client for measurements. It uses one keep-alive connection, a blocking socket,
// TCP_NODELAY, and one write per request. It trusts its peer, a daemon of our own: it reports
// malformed answers as errors and does not defend against attacks.
//
// Thread rule: one thread per client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

// Opens a blocking connection to `port` on 127.0.0.1.
Result<UniqueFd> ConnectLoopback(uint16_t port);

class LeanClient {
 public:
  // Connects to `port` on 127.0.0.1. The client sends `headers`, each line with its CRLF, with
  // every request. It declares a body as JSON unless the headers of the request have another
  // Content-Type.
  static Result<LeanClient> Connect(uint16_t port, std::string headers);

  struct Response {
    int status = 0;
    std::string body;
  };
  Status Send(std::string_view method, std::string_view path, std::string_view headers,
              std::string_view body);
  // Reads until `text` is in the body. An error status, or a body that ends before `text`, is an
  // error.
  Status AwaitText(std::string_view text);
  // Reads until the response is complete.
  Result<Response> Finish();

  // Sends a request and reads its response. A status other than 2xx is an error that quotes the
  // body.
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
  std::string received_;  // the present response, head included
  size_t body_at_ = 0;    // offset of the body; 0: the head is not complete
  size_t at_ = 0;         // chunked: offset of the next chunk
  size_t length_ = 0;     // not chunked: size of the body
  bool chunked_ = false;
  bool complete_ = false;
  int status_ = 0;
  std::string body_;
};

}  // namespace atl::bench
