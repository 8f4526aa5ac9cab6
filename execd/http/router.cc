#include "execd/http/router.h"

namespace atl::execd {
namespace {

constexpr const char* kTokenHeader = "X-EXECD-ACCESS-TOKEN";

// Compares in time that does not depend on the contents, so that a token cannot be guessed byte by
// byte.
bool EqualConstantTime(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(c ^ wanted[i]);
  }
  return difference == 0;
}

bool Match(std::string_view pattern, std::string_view path, std::vector<std::string>* parameters) {
  parameters->clear();
  while (true) {
    const size_t pattern_end = pattern.find('/', 1);
    const std::string_view part = pattern.substr(0, pattern_end);
    if (part == "/**") {
      parameters->emplace_back(path);
      return true;
    }
    const size_t path_end = path.find('/', 1);
    const std::string_view piece = path.substr(0, path_end);
    if (part == "/{}") {
      if (piece.size() < 2) return false;
      parameters->emplace_back(piece.substr(1));
    } else if (part != piece) {
      return false;
    }
    const bool pattern_ends = pattern_end == std::string_view::npos;
    const bool path_ends = path_end == std::string_view::npos;
    if (pattern_ends && path_ends) return true;
    if (pattern_ends) return false;
    pattern.remove_prefix(pattern_end);
    if (path_ends) return false;
    path.remove_prefix(path_end);
  }
}

}  // namespace

void Router::Add(std::string_view method, std::string pattern, Handler handler) {
  routes_.push_back({method, std::move(pattern), std::move(handler)});
}

const Router::Route* Router::Find(std::string_view method, std::string_view path,
                                  std::vector<std::string>* parameters) const {
  for (const Route& route : routes_) {
    if (route.method != "*" && route.method != method) continue;
    if (Match(route.pattern, path, parameters)) return &route;
  }
  return nullptr;
}

bool Router::Authorized(const Exchange& exchange) const {
  if (token_.empty()) return true;
  const std::string* given = exchange.head().Find(kTokenHeader);
  return given && EqualConstantTime(*given, token_);
}

void Router::Handle(const std::shared_ptr<Exchange>& exchange) const {
  if (!Authorized(*exchange)) {
    // The body differs from all other errors, because clients know upstream's.
    exchange->RespondJson(401,
                          "{\"error\":\"Unauthorized: invalid or missing header "
                          "X-EXECD-ACCESS-TOKEN\"}");
    return;
  }
  const std::string& method = exchange->head().method;
  const std::string& path = exchange->path();
  if (const Route* route = Find(method, path, &exchange->parameters)) {
    route->handler(exchange);
    return;
  }
  // Finds the same path with or without a final slash, as upstream's router does.
  std::string other = path;
  std::string target(exchange->raw_path());
  if (path.size() > 1 && path.back() == '/') {
    other.pop_back();
    if (!target.empty()) target.pop_back();
  } else {
    other.push_back('/');
    target.push_back('/');
  }
  std::vector<std::string> unused;
  if (path.size() > 1 && path.starts_with("/") && !path.starts_with("//") &&
      Find(method, other, &unused)) {
    if (!exchange->raw_query().empty()) target.append("?").append(exchange->raw_query());
    exchange->Respond(method == "GET" ? 301 : 307, {}, {}, {{"Location", target}});
    return;
  }
  exchange->RespondText(404, "404 page not found");
}

}  // namespace atl::execd
