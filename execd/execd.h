// All of execd's parts, wired together.
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

  // What needs no start message. Once, before Start.
  Status Prepare();
  // Makes the image trust the message's authority, if it has one; serves, and starts the
  // entrypoint, if there is a hook before it when that has succeeded. `started`, once, gets what
  // became of it; after an error ends execd when told so by Leave. Once.
  void Start(wire::StartMessage message, UniqueFd listener, std::function<bool(int)> accept_peer,
             std::function<void(Status)> started);
  // In place of it, in an isolated session: serves what comes through `connections`, and tells
  // `note` of its runs.
  Status StartSession(const wire::StartMessage& message, UniqueFd connections,
                      IsolatedShell::Note note);
  // Nothing was started: ends execd with `code` when what was printed so far is on its way.
  void Leave(int code);
  void OnSignal(int signal);
  // The daemon that has started us gets the entrypoint's output here, unless another one has come
  // for it meanwhile. After Start.
  void FeedOutput(UniqueFd control);

 private:
  using Started = std::function<void(Status)>;
  // The sandbox is filled, and its image trusts whom it should.
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
  std::unique_ptr<IsolatedShell> shell_;  // in a session
  std::unique_ptr<Entrypoint> entrypoint_;
  std::optional<Hooks> hooks_;
  std::optional<LimitWatch> limit_watch_;
  std::optional<TrustStores> trust_stores_;
};

}  // namespace atl::execd
