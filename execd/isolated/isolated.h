// Isolated sessions: /v1/isolated/…, in the sandbox's execd. It knows who there is, has them made
// and ended (line.h), and passes on what concerns one to the execd inside it (shell.h).
//
// Thread rule: the loop's.
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

  // `available`: there is a spawner behind the daemon.
  void AddRoutes(Router* router, bool available);

 private:
  struct Session {
    std::string id;
    uint32_t number = 0;
    IsolatedRequest request;
    int64_t created_us = 0, last_run_ms = 0, idle_since_us = 0;
    int64_t died_us = 0;  // monotonic; 0: it lives
    uint32_t running = 0;
    UniqueFd control, connections;
    EventLoop::Id watch = 0;
    wire::Frames frames{wire::kMaxReportFrame};
    std::shared_ptr<KeptOverlays> kept;   // their uppers come when it is made; null: there are none
    std::vector<UniqueFd> descriptors;    // that came with what is in frames
    std::string unsent;                   // of its start message
    bool made = false;                    // the spawner has said what came of it
    bool started = false;                 // and its execd that it serves
    std::function<void(Status)> created;  // until it is known
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

  // Null after 404.
  SessionPtr Find(const std::shared_ptr<Exchange>& exchange) const;
  // Also opens what the session's overlays lie on.
  Result<wire::SessionSpec> SpecOf(Session* session);
  Identity IdentityOf(const Session& session) const;
  Result<std::string> Resolve(const std::string& path) const;
  Status Ask(const SessionPtr& session, wire::SessionSpec spec);
  void OnControl(const SessionPtr& session, uint32_t events);
  Status TakeFrames(const SessionPtr& session);
  Status TakeUppers(const SessionPtr& session, std::string_view frame);
  void Created(const SessionPtr& session, const Status& status);
  void Died(const SessionPtr& session);
  // Nothing of it is found any more; `done` when nothing of it is left.
  void End(const SessionPtr& session, std::function<void(Status)> done);
  void AskEnd(uint32_t number, std::function<void(Status)> done);
  int64_t IdleLeft(const Session& session) const;
  void AppendState(std::string* out, const Session& session) const;
  void LookLater();
  void Look();

  Core& core_;
  SessionLine line_;
  bool available_ = false;
  std::map<std::string, SessionPtr> sessions_;
  std::map<uint32_t, SessionPtr> coming_;  // by number, until they are there
  uint32_t taken_ = 0;                     // numbers, as bits
  EventLoop::Id look_ = 0;
};

}  // namespace atl::execd
