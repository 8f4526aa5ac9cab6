// A blocking HTTP/1.1 client for the command line tool, tests and benchmarks. Keeps its connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::http {

class Client {
 public:
  // "http://127.0.0.1:8080". Nothing is connected yet.
  static Result<std::unique_ptr<Client>> Create(const std::string& base_url);
  virtual ~Client() = default;

  struct Call {
    std::string method = "GET";
    std::string target = "/";
    Headers headers;
    std::string body;
    int body_fd = -1;  // if set: streamed from here instead, `body_size` bytes from offset 0
    uint64_t body_size = 0;
    std::function<void(uint64_t sent)> on_progress;  // while body_fd is sent
  };
  virtual Result<Response> Send(const Call& call) = 0;
  // As Send, but a 2xx body is given to `on_data` as it arrives (false stops and closes); the
  // response's body is then empty.
  virtual Result<Response> Stream(const Call& call,
                                  const std::function<bool(std::string_view)>& on_data) = 0;
};

}  // namespace atl::http
