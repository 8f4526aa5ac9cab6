// A refusal as a client sees it: the HTTP status, a code string (upstream's, where upstream has
// one), and a message for people.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::sandbox {
struct Sandbox;
}

namespace atl::api {

struct ApiError {
  int status = 500;
  std::string code;
  std::string message;
  int retry_after_seconds = 0;  // 0: no Retry-After
  // Further members of the body: names and texts that a client acts on.
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// Builds {"code": …, "message": …} and the facts.
http::Response ErrorResponse(const ApiError& error);

// Returns 404: no sandbox has this id, or the sandbox is gone.
ApiError NoSuchSandbox(const std::string& id);
// Returns the refusal of an operation that needs a running sandbox: 409, or 410 if the sandbox has
// ended, because that never changes.
ApiError NotRunning(const sandbox::Sandbox& sandbox);

// An answer without a body: 202, 204.
http::Response EmptyResponse(int status);

// The result of parsing a request: the value, or the response that refuses the request.
template <typename T>
using Parsed = tl::expected<T, http::Response>;

inline tl::unexpected<http::Response> Refuse(http::Response response) {
  return tl::unexpected<http::Response>(std::move(response));
}
inline tl::unexpected<http::Response> Refuse(int status, std::string code, std::string message) {
  return Refuse(ErrorResponse({status, std::move(code), std::move(message)}));
}

}  // namespace atl::api
