#include "execd/daemon.h"

#include <signal.h>
#include <unistd.h>

namespace atl::execd {

Daemon::Daemon(Sandbox* sandbox)
    : sandbox_(*sandbox),
      server_(&sandbox->loop,
              [this](std::shared_ptr<Exchange> exchange) { router_.Handle(exchange); }),
      commands_(sandbox) {}

Status Daemon::Start(const wire::StartMessage& message, UniqueFd listener,
                     std::function<bool(int)> accept_peer) {
  // Process 1 ends with the entrypoint, and everything in the sandbox with process 1. _exit: there
  // is nothing to destroy that the kernel does not.
  ATOLL_ASSIGN(entrypoint_, Entrypoint::Start(&sandbox_, message, [](int code) { ::_exit(code); }));
  AddRoutes();
  router_.RequireToken(sandbox_.access_token);
  return server_.Listen(std::move(listener), std::move(accept_peer));
}

void Daemon::OnSignal(int signal) {
  switch (signal) {
    case SIGCHLD:
      sandbox_.Reap();
      return;
    case SIGPIPE:
      return;
    default:
      break;
  }
  if (entrypoint_) {
    entrypoint_->Forward(signal);
  } else if (signal == SIGTERM || signal == SIGINT) {
    ::_exit(128 + signal);
  }
}

void Daemon::AddRoutes() {
  using Ptr = const std::shared_ptr<Exchange>&;
  router_.Add("GET", "/ping", [](Ptr x) { x->RespondEmpty(); });
  router_.Add("POST", "/command", [this](Ptr x) { commands_.Run(x); });
  router_.Add("DELETE", "/command", [this](Ptr x) {
    const std::string* id = x->QueryValue("id");
    if (!id || id->empty()) {
      x->RespondError(400, "MISSING_QUERY", "missing query parameter 'id'");
      return;
    }
    commands_.Interrupt(x, *id);
  });
  router_.Add("GET", "/command/status/{}", [this](Ptr x) { commands_.Status(x); });
  router_.Add("GET", "/command/{}/logs", [this](Ptr x) { commands_.Logs(x); });
  router_.Add("GET", "/.atoll/entrypoint/logs",
              [this](Ptr x) { x->RespondText(200, entrypoint_->output().Text()); });
}

}  // namespace atl::execd
