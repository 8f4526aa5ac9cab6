// One intercepted connection: reads requests, applies the current vault, and passes them on.
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "netpolicy/intercept/program.h"
#include "netpolicy/splice/host_name.h"
#include "netpolicy/vault/match.h"
#include "netpolicy/vault/redact.h"
#include "netpolicy/vault/rewrite.h"
#include "runtime/base/log.h"
#include "runtime/http/ascii.h"
#include "runtime/http/head.h"
#include "runtime/http/server.h"
#include "runtime/http/sole_upstream.h"

namespace atl::intercept {
namespace {

http::Response Text(int status, const std::string& text) {
  http::Response response;
  response.status = status;
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  response.body = text;
  return response;
}

http::Response TooMany() {
  return Text(503, "too many request bodies with credentials are in flight; try again\n");
}

// A share of the limit of all held bodies.
class HeldBytes {
 public:
  explicit HeldBytes(Shared& shared) : shared_(shared) {}
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() { shared_.held_bodies -= bytes_; }

  void Shrink(size_t bytes) {
    shared_.held_bodies -= bytes_ - bytes;
    bytes_ = bytes;
  }
  bool Grow(size_t bytes) {
    if (bytes > kMaxHeldBodies - shared_.held_bodies) return false;
    bytes_ += bytes;
    shared_.held_bodies += bytes;
    return true;
  }

 private:
  Shared& shared_;
  size_t bytes_ = 0;
};

struct Flow : std::enable_shared_from_this<Flow> {
  Flow(Shared& the_shared, std::string the_name, bool tls, UniqueFd the_lease)
      : shared(the_shared),
        name(std::move(the_name)),
        scheme(tls ? vault::Scheme::kHttps : vault::Scheme::kHttp),
        lease(std::move(the_lease)) {}

  Shared& shared;
  const std::string name;
  const vault::Scheme scheme;
  const UniqueFd lease;
  std::shared_ptr<http::SoleUpstream> server;

  // Returns true if the request is for the server that the policy and the certificate were checked
  // for. Whatever other host the request names, it would reach this server.
  bool IsForServer(const http::Request& request) const {
    const auto meant = netpolicy::ReadHostField(request.headers.Get("host"));
    return meant && meant->name == name &&
           (meant->port == 0 || meant->port == vault::PortOf(scheme));
  }

  void Handle(const std::shared_ptr<http::Exchange>& exchange) {
    const http::Request& request = exchange->request();
    if (!IsForServer(request)) {
      return exchange->Respond(Text(
          403, "this connection is to " + name + ": it cannot carry a request for another host\n"));
    }
    const std::shared_ptr<const vault::Vault> now = shared.vault;
    const vault::Choice choice = vault::Choose(*now, scheme, name, request.method, request.path());
    switch (choice.kind) {
      case vault::Choice::Kind::kNone:
        return Forward(exchange, Plain(request));
      case vault::Choice::Kind::kAmbiguous:
        return exchange->Respond(Text(403, vault::kAmbiguousBinding));
      case vault::Choice::Kind::kAmbiguousPath:
        return exchange->Respond(Text(403, vault::kAmbiguousPathText));
      case vault::Choice::Kind::kOne:
        return Inject(exchange, now, *choice.binding);
    }
  }

  http::Upstream Plain(const http::Request& request) const {
    http::Upstream upstream;
    upstream.target = request.target;
    // Other protocols, above all HTTP/2, have requests of their own, which the interceptor could
    // not see.
    upstream.keeps_protocol = !http::EqualNoCase(request.headers.Get("upgrade"), "websocket");
    // The reason phrase could carry a secret, so it is dropped.
    upstream.drops_reason = true;
    upstream.edit_response = [redactor = shared.redactor](int, http::Headers* headers) {
      redactor->RedactHeaders(*headers);
      std::erase_if(headers->list, [&](const http::Header& header) {
        return redactor->Redact(header.name).has_value();
      });
    };
    return upstream;
  }

  void Inject(const std::shared_ptr<http::Exchange>& exchange,
              const std::shared_ptr<const vault::Vault>& now, const vault::Binding& binding) {
    http::Request request = exchange->request();
    // Removed before the credential is set: a client could list Authorization in Connection, and
    // Forward would remove it again.
    std::erase_if(request.headers.list, [&](const http::Header& header) {
      return http::IsHopByHop(exchange->request().headers, header.name) ||
             http::EqualNoCase(header.name, "expect");
    });
    if (auto applied = vault::Rewrite(*now, binding, request); !applied) {
      const bool ambiguous = applied.error().code() == Code::kPermissionDenied;
      return exchange->Respond(ambiguous ? Text(403, vault::kAmbiguousSubstitution)
                                         : Text(502, applied.error().message() + "\n"));
    }
    http::Upstream upstream = Plain(exchange->request());
    upstream.target = std::move(request.target);
    upstream.set_headers = request.headers.list;
    if (!vault::SubstitutesBody(binding, request.headers) || !IsHeld(exchange->request().headers)) {
      return Forward(exchange, std::move(upstream));
    }
    InjectIntoBody(exchange, {now, &binding, std::move(request.headers)}, std::move(upstream));
  }

  // Returns how many bytes the body may take: the announced length, or the limit if none is
  // announced.
  static uint64_t Announced(const http::Headers& headers) {
    if (headers.Has("transfer-encoding")) return vault::kMaxHeldBody;
    const std::string_view text = headers.Get("content-length");
    uint64_t length = 0;
    std::from_chars(text.data(), text.data() + text.size(), length);
    return length;
  }
  // Returns true if the body is held. A longer one is forwarded unchanged, with its placeholders.
  static bool IsHeld(const http::Headers& headers) {
    return Announced(headers) > 0 && Announced(headers) <= vault::kMaxHeldBody;
  }

  struct Injection {
    std::shared_ptr<const vault::Vault> now;
    const vault::Binding* binding;
    http::Headers headers;
  };

  void InjectIntoBody(const std::shared_ptr<http::Exchange>& exchange, Injection injection,
                      http::Upstream upstream) {
    const auto held = std::make_shared<HeldBytes>(shared);
    if (!held->Grow(Announced(exchange->request().headers))) return exchange->Respond(TooMany());
    exchange->ReadBody(
        vault::kMaxHeldBody, [self = shared_from_this(), exchange, held, how = std::move(injection),
                              to = std::move(upstream)](Result<std::string> body) mutable {
          if (!body && body.error().code() == Code::kResourceExhausted) {
            return exchange->Respond(Text(413,
                                          "a body into which credentials are put may have at most "
                                          "1 MiB if it has no Content-Length\n"));
          }
          if (!body) return exchange->Respond(Text(400, body.error().message() + "\n"));
          auto rewritten = vault::RewriteBody(*how.now, *how.binding, how.headers, *body);
          if (!rewritten) return exchange->Respond(Text(413, rewritten.error().message() + "\n"));
          struct Sent {
            std::string body;
            std::shared_ptr<HeldBytes> held;
          };
          auto sent = std::make_shared<Sent>();
          sent->body = *rewritten ? std::move(**rewritten) : std::move(*body);
          sent->held = held;
          held->Shrink(0);
          if (!held->Grow(sent->body.size())) return exchange->Respond(TooMany());
          to.body = std::shared_ptr<const std::string>(sent, &sent->body);
          std::erase_if(to.set_headers, [](const http::Header& header) {
            return http::EqualNoCase(header.name, "content-length");
          });
          to.set_headers.push_back({"Content-Length", std::to_string(to.body->size())});
          self->Forward(exchange, std::move(to));
        });
  }

  void Forward(const std::shared_ptr<http::Exchange>& exchange, http::Upstream upstream) {
    upstream.sole = server;
    upstream.on_error = [name = name](const Error& error) {
      return Text(502, name + ": " + error.message() + "\n");
    };
    exchange->Forward(std::move(upstream));
  }
};

}  // namespace

void ServeFlow(Shared& shared, Serve message) {
  http::ServerConfig config;
  config.answers_half_closed = true;
  const auto flow = std::make_shared<Flow>(shared, std::move(message.name), message.tls,
                                           std::move(message.lease));
  const auto begin = [&]() -> Status {
    if (message.tls) {
      ATOLL_ASSIGN(config.tls, shared.certificates.For(flow->name));
    }
    ATOLL_ASSIGN(flow->server,
                 http::SoleUpstream::Create(shared.loop, std::move(message.server),
                                            message.tls ? shared.trust : nullptr, flow->name));
    ATOLL_ASSIGN(auto finish, http::ServeConnection(
                                  shared.loop, config,
                                  [flow](const std::shared_ptr<http::Exchange>& exchange) {
                                    flow->Handle(exchange);
                                  },
                                  std::move(message.client), [flow] {}));
    // A client that keeps connections checks whether they have ended before it reuses them.
    flow->server->OnEnd(std::move(finish));
    return {};
  };
  if (auto begun = begin(); !begun) {
    LogLine(LogLevel::kWarning, "cannot intercept a connection").Add(begun.error());
  }
}

}  // namespace atl::intercept
