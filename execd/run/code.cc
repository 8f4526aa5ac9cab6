#include "execd/run/code.h"

#include "execd/http/request_json.h"

namespace atl::execd {
namespace {

// The languages of upstream that are not kernels.
bool NotAKernel(std::string_view language) {
  return language == "command" || language == "background-command" || language == "sql";
}

void NoKernels(Exchange* exchange, std::string_view language) {
  exchange->RespondError(500, "RUNTIME_ERROR",
                         "language '" + std::string(language) +
                             "': no code interpreter is configured in this sandbox");
}

}  // namespace

void CodeRoutes::Run(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const JsonValue root = document ? document->root() : JsonValue();
    const JsonValue context = root.Find("context");
    const auto code = document ? TextMember(root, "code") : Fail(document.error());
    const auto id = TextMember(context, "id");
    const auto language = TextMember(context, "language");
    const auto cwd = TextMember(context, "cwd");
    const std::string problem = !code           ? code.error().message()
                                : !id           ? id.error().message()
                                : !language     ? language.error().message()
                                : !cwd          ? cwd.error().message()
                                : code->empty() ? "code: is empty or missing"
                                                : "";
    if (!problem.empty()) {
      x->RespondError(400, "INVALID_REQUEST_BODY", problem);
      return;
    }
    if (!id->empty()) {
      x->RespondError(500, "RUNTIME_ERROR", "no context with id '" + *id + "'");
      return;
    }
    if (!language->empty() && *language != "command" && *language != "background-command") {
      NoKernels(x, *language);
      return;
    }
    CommandRequest request;
    request.command = *code;
    request.cwd = *cwd;
    request.background = *language == "background-command";
    commands_.RunRequest(x->shared_from_this(), request);
  });
}

void CodeRoutes::CreateContext(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const auto language =
        document ? TextMember(document->root(), "language") : Fail(document.error());
    if (!language) {
      x->RespondError(400, "INVALID_REQUEST_BODY", language.error().message());
      return;
    }
    NoKernels(x, *language);
  });
}

void CodeRoutes::ListContexts(const std::shared_ptr<Exchange>& exchange) {
  const std::string* language = exchange->QueryValue("language");
  if (language && NotAKernel(*language)) {
    exchange->RespondError(500, "RUNTIME_ERROR", "language '" + *language + "' has no contexts");
    return;
  }
  exchange->Respond(200, "application/json; charset=utf-8", "[]");
}

void CodeRoutes::DeleteContexts(const std::shared_ptr<Exchange>& exchange) {
  const std::string* language = exchange->QueryValue("language");
  if (!language || language->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'language'");
    return;
  }
  exchange->RespondEmpty();
}

void CodeRoutes::OneContext(const std::shared_ptr<Exchange>& exchange) {
  exchange->RespondError(404, "CONTEXT_NOT_FOUND",
                         "no context with id '" + exchange->parameters[0] + "'");
}

}  // namespace atl::execd
