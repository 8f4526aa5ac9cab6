// A blocking HTTP/1.1 client for the command line tool, tests, benchmarks, and the daemon's own
// requests on pool threads. Keeps its connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/message.h"
#include "runtime/http/tls.h"

namespace atl::http {

class Client {
 public:
  // `base_url`: "http://HOST[:PORT][/PREFIX]", or https. The prefix is put before every target.
  // With https the server must have a certificate for HOST from an authority of `trust`, or of the
  // host if `trust` is null. Does not connect yet.
  static Result<std::unique_ptr<Client>> Create(const std::string& base_url,
                                                std::shared_ptr<const TlsContext> trust = nullptr);
  virtual ~Client() = default;

  struct Call {
    std::string method = "GET";
    std::string target = "/";
    Headers headers;
    std::string body;
    // if set, the body is streamed from here instead: `body_size` bytes from offset 0
    int body_fd = -1;
    uint64_t body_size = 0;
    std::function<void(uint64_t sent)> on_progress;  // called while body_fd is sent
    std::function<void(int status)> on_head;  // called before the first byte of the answer's body
    // If set: when this descriptor becomes readable, the call is cancelled with kUnavailable and
    // error_number() ECANCELED, and the connection is closed. Nothing is read from the descriptor.
    int cancel_fd = -1;
    // If set, instead of cancel_fd: the call fails with kUnavailable and error_number() ETIMEDOUT
    // when so much time has passed, and the connection is closed. Resolving the name is not
    // limited.
    int64_t limit_us = 0;
  };
  // Sends a request and returns the answer, whatever its status. kUnavailable: the server cannot be
  // reached or breaks off. kResourceExhausted: the answer is over 64 MiB. Connecting takes at most
  // 10 s; the answer has no deadline but that of the call. A request that the server may have acted
  // on is repeated only if its method is idempotent.
  virtual Result<Response> Send(const Call& call) = 0;
  // Like Send, but streams the body of a 2xx answer, of any size, to `on_data`. If `on_data`
  // returns false, the connection is closed. The response's body is then empty.
  virtual Result<Response> Stream(const Call& call,
                                  const std::function<bool(std::string_view)>& on_data) = 0;
};

// Returns a descriptor that becomes readable after that time.
Result<UniqueFd> TimeLimit(int64_t micros);

}  // namespace atl::http
