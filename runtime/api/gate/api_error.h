// A refusal as a client sees it: HTTP status, upstream's code string where one exists, and what
// went wrong for people.
#pragma once

#include <string>

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
};

// {"code": …, "message": …}
http::Response ErrorResponse(const ApiError& error);

// 404 for an id that nobody has, or has any more.
ApiError NoSuchSandbox(const std::string& id);
// 409 for what can be asked of a running sandbox only; 410 if it has ended, which never changes.
ApiError NotRunning(const sandbox::Sandbox& sandbox);

// No body: 202, 204.
http::Response EmptyResponse(int status);

// What a parser of requests gives: the value, or the response that refuses the request.
template <typename T>
using Parsed = tl::expected<T, http::Response>;

inline tl::unexpected<http::Response> Refuse(http::Response response) {
  return tl::unexpected<http::Response>(std::move(response));
}
inline tl::unexpected<http::Response> Refuse(int status, std::string code, std::string message) {
  return Refuse(ErrorResponse({status, std::move(code), std::move(message)}));
}

}  // namespace atl::api
