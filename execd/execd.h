// All parts of execd, wired together.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "execd/code/code.h"
#include "execd/core/core.h"
#include "execd/files/files.h"
#include "execd/http/connection.h"
#include "execd/http/router.h"
#include "execd/isolated/isolated.h"
#include "execd/isolated/shell.h"
#include "execd/run/command.h"
#include "execd/run/entrypoint.h"
#include "execd/run/hooks.h"
#include "execd/run/limit_watch.h"
#include "execd/run/metrics.h"
#include "execd/run/session.h"
#include "execd/run/terminal.h"
#include "execd/trust/stores.h"
#include "runtime/wire/start.h"

namespace atl::execd {

class Execd {
 public:
  explicit Execd(Core* core);
  Execd(const Execd&) = delete;
  Execd& operator=(const Execd&) = delete;

  // Sets up what does not need the start message. Call once, before Start.
  Status Prepare();
  // Gives execd a line of its own for isolated sessions (isolated/line.h). Call before Start.
  void UseSessionLine(UniqueFd line) { isolated_.UseLine(std::move(line)); }
  // Starts the sandbox. Makes the image trust the certificate authority of the message, if it has
  // one; serves the exec API; runs the hook before the entrypoint, if there is one; starts the
  // entrypoint if the hook has succeeded. Calls `started` once with the result. After an error
  // execd keeps running until Leave. Call once.
  void Start(wire::StartMessage message, UniqueFd listener, std::function<bool(int)> accept_peer,
             std::function<void(Status)> started);
  // Replaces Start in an isolated session: serves the connections that come through `connections`,
  // and reports its runs to `note`.
  Status StartSession(const wire::StartMessage& message, UniqueFd connections,
                      IsolatedShell::Note note);
  // Ends execd with `code` after a failed start, once all output so far has been sent.
  void Leave(int code);
  void OnSignal(int signal);
  // Sends the entrypoint's output to the daemon that has started execd, unless a later daemon has
  // connected meanwhile. Call after Start.
  void FeedOutput(UniqueFd control);

 private:
  using Started = std::function<void(Status)>;
  // Continues Start when the sandbox is set up and the image trusts its authority.
  void Begin(wire::StartMessage message, std::function<Status()> serve, const Started& started);
  void RunEntrypoint(const wire::StartMessage& message, const Started& started);
  void AddRunRoutes();
  void AddUpstreamFileRoutes();
  void AddFileRoutes();
  void AddOtherRoutes();
  void Signal(const std::shared_ptr<Exchange>& exchange);
  void Interrupt(const std::shared_ptr<Exchange>& exchange);
  void ResumeOutput(const std::shared_ptr<Exchange>& exchange);

  Core& core_;
  Router router_;
  HttpServer server_;
  Commands commands_;
  Sessions sessions_;
  Terminals terminals_;
  FileRoutes files_;
  Metrics metrics_;
  CodeRoutes code_;
  Isolated isolated_;
  std::unique_ptr<IsolatedShell> shell_;  // set in an isolated session
  std::unique_ptr<Entrypoint> entrypoint_;
  std::optional<Hooks> hooks_;
  std::optional<LimitWatch> limit_watch_;
  std::optional<TrustStores> trust_stores_;
};

}  // namespace atl::execd
