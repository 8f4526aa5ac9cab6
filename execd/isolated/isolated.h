// Isolated sessions: /v1/isolated/…, in the sandbox's execd. Keeps the list of sessions, asks the
// daemon to create and end them (line.h), and forwards requests for a session to the execd inside
// it (shell.h).
//
// Thread rule: the event loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/http/router.h"
#include "execd/isolated/changes.h"
#include "execd/isolated/line.h"
#include "execd/isolated/request.h"

namespace atl::execd {

class Isolated {
 public:
  explicit Isolated(Core* core) : core_(*core), line_(&core->loop) {}
  Isolated(const Isolated&) = delete;
  Isolated& operator=(const Isolated&) = delete;

  // Takes a connection to the machine's process 1, which creates sessions in a virtual machine.
  void UseLine(UniqueFd line);
  // `available`: the daemon has a spawner that can create sessions.
  void AddRoutes(Router* router, bool available);

 private:
  struct Session {
    std::string id;
    uint32_t number = 0;
    IsolatedRequest request;
    int64_t created_us = 0, last_run_ms = 0, idle_since_us = 0;
    int64_t died_us = 0;  // monotonic; 0: the session is alive
    uint32_t running = 0;
    UniqueFd control, connections;
    EventLoop::Id watch = 0;
    wire::Frames frames{wire::kMaxReportFrame};
    std::shared_ptr<KeptOverlays>
        kept;  // upper directories arrive on creation; null: no overlay is kept
    std::vector<UniqueFd> descriptors;    // received with the bytes in frames
    std::string unsent;                   // rest of its start message
    bool made = false;                    // the spawner has reported the result
    bool started = false;                 // its execd has reported that it serves
    std::function<void(Status)> created;  // null once the result is known
  };
  using SessionPtr = std::shared_ptr<Session>;

  void Capabilities(const std::shared_ptr<Exchange>& exchange) const;
  void Create(const std::shared_ptr<Exchange>& exchange);
  void List(const std::shared_ptr<Exchange>& exchange) const;
  void Get(const std::shared_ptr<Exchange>& exchange);
  void Delete(const std::shared_ptr<Exchange>& exchange);
  void Run(const std::shared_ptr<Exchange>& exchange);
  void PassOn(const std::shared_ptr<Exchange>& exchange);
  void Diff(const std::shared_ptr<Exchange>& exchange);
  void Commit(const std::shared_ptr<Exchange>& exchange);
  void TakeLine(const std::shared_ptr<Exchange>& exchange);

  // Returns the session that the request names, or answers 404 and returns null.
  SessionPtr Find(const std::shared_ptr<Exchange>& exchange) const;
  // Returns the spec for the spawner. Also opens the lower directories of the session's overlays.
  Result<wire::SessionSpec> SpecOf(Session* session);
  Identity IdentityOf(const Session& session) const;
  Result<std::string> Resolve(const std::string& path) const;
  Status Ask(const SessionPtr& session, wire::SessionSpec spec);
  void OnControl(const SessionPtr& session, uint32_t events);
  Status TakeFrames(const SessionPtr& session);
  Status TakeUppers(const SessionPtr& session, std::string_view frame);
  void Created(const SessionPtr& session, const Status& status);
  void Died(const SessionPtr& session);
  // Ends the session. Requests no longer find it. Calls `done` when nothing of it is left.
  void End(const SessionPtr& session, std::function<void(Status)> done);
  void AskEnd(uint32_t number, std::function<void(Status)> done);
  int64_t IdleLeft(const Session& session) const;
  void AppendState(std::string* out, const Session& session) const;
  void LookLater();
  void Look();

  Core& core_;
  SessionLine line_;
  bool available_ = false;
  bool own_line_ = false;  // no daemon's
  std::map<std::string, SessionPtr> sessions_;
  std::map<uint32_t, SessionPtr> coming_;  // sessions being created, by number
  uint32_t taken_ = 0;                     // bit set of numbers in use
  EventLoop::Id look_ = 0;
};

}  // namespace atl::execd
