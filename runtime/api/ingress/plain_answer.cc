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
    default:
      return 500;
  }
}

}  // namespace

void RespondText(const Call& call, int status, const std::string& text) {
  http::Response response;
  response.status = status;
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  response.body = text + "\n";
  call.Respond(std::move(response));
}

void RespondAllowed(const Call& call, const char* methods) {
  http::Response response;
  response.status = 405;
  response.headers.Set("Allow", methods);
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  response.body = std::string("use ") + methods + "\n";
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
  RespondText(call, StatusOf(error.code()), call.answering().Tellable(error.message()));
}

}  // namespace atl::api
