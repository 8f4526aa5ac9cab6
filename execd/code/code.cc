#include "execd/code/code.h"

#include "execd/http/request_json.h"
#include "runtime/base/log.h"
#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

constexpr const char* kRuntimeError = "RUNTIME_ERROR";

// Languages of upstream that are shell commands.
bool IsShell(std::string_view language) {
  return language == "command" || language == "background-command";
}

void AppendContext(std::string* out, const Context& context) {
  out->append("{\"id\":");
  AppendJsonString(out, context.id());
  out->append(",\"language\":");
  AppendJsonString(out, context.language());
}

void NoSuchContext(Exchange* exchange) {
  exchange->RespondError(404, "CONTEXT_NOT_FOUND",
                         "no context with id '" + exchange->parameters[0] + "'");
}

}  // namespace

void CodeRoutes::Run(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const JsonValue root = document ? document->root() : JsonValue();
    const JsonValue member = root.Find("context");
    const auto code = document ? TextMember(root, "code") : Fail(document.error());
    const auto id = TextMember(member, "id");
    const auto language = TextMember(member, "language");
    const auto cwd = TextMember(member, "cwd");
    const auto form = ParseOutputForm(x->QueryValue("encoding"), OutputForm::kText);
    const std::string problem = !code           ? code.error().message()
                                : !id           ? id.error().message()
                                : !language     ? language.error().message()
                                : !cwd          ? cwd.error().message()
                                : !form         ? form.error().message()
                                : code->empty() ? "code: is empty or missing"
                                                : "";
    if (!problem.empty()) {
      x->RespondError(400, "INVALID_REQUEST_BODY", problem);
      return;
    }
    if (id->empty() && (language->empty() || IsShell(*language))) {
      CommandRequest request;
      request.command = *code;
      request.cwd = *cwd;
      request.background = *language == "background-command";
      commands_.RunRequest(x->shared_from_this(), request);
      return;
    }
    auto context = id->empty() ? Default(*language, *cwd) : Result<Context*>(Find(*id));
    if (context && !*context) {
      context = Fail(Code::kNotFound, "no context with id '" + *id + "'");
    } else if (context && (*context)->busy()) {
      context = Fail(Code::kFailedPrecondition, "context '" + (*context)->id() +
                                                    "' is busy: it runs one request at a time; use "
                                                    "another context to run code beside it");
    }
    if (!context) return x->RespondError(500, kRuntimeError, context.error().message());
    (*context)->Run(x->shared_from_this(), *code, *form);
  });
}

Context* CodeRoutes::Find(const std::string& id) {
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second.get();
}

Result<Context*> CodeRoutes::Default(const std::string& language, const std::string& cwd) {
  std::string key = language;
  for (char& letter : key) letter = http::ToLower(letter);
  const auto known = defaults_.find(key);
  Context* const context = known == defaults_.end() ? nullptr : Find(known->second);
  if (context) return context;
  ATOLL_ASSIGN(Context* const added, Add(language, cwd));
  defaults_[key] = added->id();
  return added;
}

Result<Context*> CodeRoutes::Add(const std::string& language, const std::string& cwd) {
  std::string directory = core_.cwd;
  if (contexts_.size() >= kMaxContexts) {
    return Fail(Code::kResourceExhausted, "64 contexts are open: delete some");
  }
  if (!cwd.empty()) {
    ATOLL_ASSIGN(directory, core_.Path(cwd));
    ATOLL_TRY(MakeDirectory(directory, core_.user));
  }
  // Refuse an unknown language before a context exists. Once the image is set up, the languages
  // depend only on the image.
  if (!KernelsMayCome(core_.env, core_.started_at)) {
    ATOLL_TRY(FindKernelspec(language, core_.CommandEnvironment(), core_.Home(), core_.user));
  }
  auto context = std::make_unique<Context>(&core_, &zygote_, &spare_, language, directory);
  Context* raw = context.get();
  contexts_.emplace(raw->id(), std::move(context));
  return raw;
}

void CodeRoutes::CreateContext(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const JsonValue root = document ? document->root() : JsonValue();
    const auto language = document ? TextMember(root, "language") : Fail(document.error());
    const auto cwd = TextMember(root, "cwd");
    if (!language || !cwd) {
      x->RespondError(400, "INVALID_REQUEST_BODY",
                      language ? cwd.error().message() : language.error().message());
      return;
    }
    const auto context = Add(*language, *cwd);
    if (!context) return x->RespondError(500, kRuntimeError, context.error().message());
    (*context)->Prepare([this, exchange = x->shared_from_this(), id = (*context)->id(),
                         cwd = *cwd](const Status& status) {
      const auto found = contexts_.find(id);
      if (!status || found == contexts_.end()) {
        if (found != contexts_.end()) Remove(found);
        exchange->RespondError(500, kRuntimeError,
                               status ? "the context was deleted" : status.error().message());
        return;
      }
      std::string answer;
      AppendContext(&answer, *found->second);
      if (!cwd.empty()) {
        answer.append(",\"cwd\":");
        AppendJsonString(&answer, cwd);
      }
      answer.push_back('}');
      exchange->RespondJson(200, answer);
    });
  });
}

void CodeRoutes::ListContexts(const std::shared_ptr<Exchange>& exchange) {
  const std::string* language = exchange->QueryValue("language");
  // Upstream answers the same: these languages have no kernels.
  if (language && (IsShell(*language) || *language == "sql")) {
    exchange->RespondError(500, kRuntimeError, "language '" + *language + "' has no contexts");
    return;
  }
  std::string answer = "[";
  for (const auto& [id, context] : contexts_) {
    const bool all = !language || language->empty();
    if (!all && !http::EqualNoCase(context->language(), *language)) continue;
    if (answer.size() > 1) answer.push_back(',');
    AppendContext(&answer, *context);
    answer.push_back('}');
  }
  answer.push_back(']');
  exchange->RespondJson(200, answer);
}

// Destroyed after this turn, because one of the context's own functions may be the caller.
CodeRoutes::Contexts::iterator CodeRoutes::Remove(Contexts::iterator at) {
  core_.loop.Post([context = std::shared_ptr<Context>(std::move(at->second))] {});
  return contexts_.erase(at);
}

void CodeRoutes::DeleteContexts(const std::shared_ptr<Exchange>& exchange) {
  const std::string* language = exchange->QueryValue("language");
  if (!language || language->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'language'");
    return;
  }
  for (auto at = contexts_.begin(); at != contexts_.end();) {
    at = http::EqualNoCase(at->second->language(), *language) ? Remove(at) : std::next(at);
  }
  exchange->RespondEmpty();
}

void CodeRoutes::GetContext(const std::shared_ptr<Exchange>& exchange) {
  const Context* context = Find(exchange->parameters[0]);
  if (!context) return NoSuchContext(exchange.get());
  std::string answer;
  AppendContext(&answer, *context);
  exchange->RespondJson(200, answer.append("}"));
}

void CodeRoutes::DeleteContext(const std::shared_ptr<Exchange>& exchange) {
  const auto found = contexts_.find(exchange->parameters[0]);
  if (found == contexts_.end()) return NoSuchContext(exchange.get());
  Remove(found);
  exchange->RespondEmpty();
}

void CodeRoutes::Warm() {
  const char* language = core_.env.Get("EXECD_WARM");
  if (!language || !*language) return;
  const auto spec = FindKernelspec(language, core_.CommandEnvironment(), core_.Home(), core_.user);
  const Status warm = spec ? zygote_.Prepare(*spec, Kernel::EnvironmentFor(core_, *spec))
                           : Status(Fail(spec.error()));
  if (warm) return spare_.Want(*spec);
  LogLine(LogLevel::kWarning, "EXECD_WARM has no effect").Add(warm.error());
}

void CodeRoutes::WarmUp(const std::string& language, Context::Then then) {
  const auto spec = FindKernelspec(language, core_.CommandEnvironment(), core_.Home(), core_.user);
  if (!spec) return then(Fail(spec.error()));
  if (Zygote::Makes(*spec)) {
    const Status warm = zygote_.Prepare(*spec, Kernel::EnvironmentFor(core_, *spec));
    return warm ? spare_.WantNow(*spec, std::move(then)) : then(warm);
  }
  const auto context = Default(language, "");
  context ? (*context)->Prepare(std::move(then)) : then(Fail(context.error()));
}

bool CodeRoutes::Interrupt(const std::string& id) {
  Context* context = Find(id);
  if (!context || !context->busy()) return false;
  context->Interrupt();
  return true;
}

}  // namespace atl::execd
