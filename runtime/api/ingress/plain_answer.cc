#include "runtime/api/ingress/plain_answer.h"

#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/sandbox/state/terms.h"

namespace atl::api {
namespace {

int StatusOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
      return 409;
    case Code::kFailedPrecondition:
      return 412;
    case Code::kResourceExhausted:
      return 413;
    case Code::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

http::Response TextResponse(int status, const std::string& text) {
  http::Response response;
  response.status = status;
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  response.body = text + "\n";
  return response;
}

}  // namespace

void RespondText(const Call& call, int status, const std::string& text) {
  call.Respond(TextResponse(status, text));
}

void RespondAllowed(const Call& call, const char* methods) {
  http::Response response = TextResponse(405, std::string("use ") + methods);
  response.headers.Set("Allow", methods);
  call.Respond(std::move(response));
}

void RespondJson(const Call& call, int status, std::string json) {
  http::Response response;
  response.status = status;
  response.headers.Set("Content-Type", "application/json");
  response.body = std::move(json);
  call.Respond(std::move(response));
}

void RespondError(const Call& call, const Error& error) {
  // Upstream has no such refusal, so it has the form of all others here.
  if (error.error_number() == sandbox::kByTerms) {
    return call.Respond(MapError(error, Doing::kProxy));
  }
  http::Response response =
      TextResponse(StatusOf(error.code()), call.answering().Tellable(error.message()));
  if (error.code() == Code::kUnavailable) response.headers.Set("Retry-After", "1");
  call.Respond(std::move(response));
}

}  // namespace atl::api
