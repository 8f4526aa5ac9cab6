// A blocking HTTP/1.1 client: for the command line tool, tests and benchmarks, and for what the
// daemon asks of others, on a thread that may wait. Keeps its connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/message.h"
#include "runtime/http/tls.h"

namespace atl::http {

class Client {
 public:
  // "http://HOST[:PORT][/PREFIX]", or https; the prefix goes before every target. With https the
  // server must have a certificate for HOST from an authority of `trust`, or, without it, of this
  // host. Nothing is connected yet.
  static Result<std::unique_ptr<Client>> Create(const std::string& base_url,
                                                std::shared_ptr<const TlsContext> trust = nullptr);
  virtual ~Client() = default;

  struct Call {
    std::string method = "GET";
    std::string target = "/";
    Headers headers;
    std::string body;
    int body_fd = -1;  // if set: streamed from here instead, `body_size` bytes from offset 0
    uint64_t body_size = 0;
    std::function<void(uint64_t sent)> on_progress;  // while body_fd is sent
    std::function<void(int status)> on_head;         // before the first byte of the answer's body
    // If set: as soon as this descriptor is readable the call is given up, with kUnavailable and
    // error_number() ECANCELED, and the connection closed. Nothing is read from it.
    int cancel_fd = -1;
  };
  // The answer, whatever its status. An error means that there is none: kUnavailable if the server
  // cannot be reached or breaks off, kResourceExhausted if the answer is over 64 MiB. Connecting
  // takes at most 10 s, the answer may take as long as it likes. A request that may have been acted
  // on is not repeated, unless its method is idempotent.
  virtual Result<Response> Send(const Call& call) = 0;
  // As Send, but a 2xx body of any size is given to `on_data` as it arrives (false stops and
  // closes); the response's body is then empty.
  virtual Result<Response> Stream(const Call& call,
                                  const std::function<bool(std::string_view)>& on_data) = 0;
};

}  // namespace atl::http
