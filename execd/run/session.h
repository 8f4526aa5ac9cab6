// Bash sessions: /session… . As upstream, there is no resident shell: each run is a new one that is
// given the state of the session and reports it at its end. So runs are separate, `exit` ends a run
// and not the session, and a timeout cannot leave a shell half way. The state is more than
// upstream's: besides exported variables and the working directory it holds functions and aliases,
// and values of any size.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "execd/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

class Sessions {
 public:
  static constexpr size_t kMaxSessions = 256;

  explicit Sessions(Core* core) : core_(*core) {}
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  void Create(const std::shared_ptr<Exchange>& exchange);  // POST /session
  void Run(const std::shared_ptr<Exchange>& exchange);     // POST /session/{id}/run
  void Delete(const std::shared_ptr<Exchange>& exchange);  // DELETE /session/{id}
  // Ends the session and its runs. False if there is none of that id.
  bool Destroy(const std::string& id);

 private:
  class Execution;
  struct Session {
    std::string id;
    std::string cwd;
    std::string state;  // shell text; empty before the first run
    std::map<Execution*, std::shared_ptr<Execution>> running;
  };

  Core& core_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace atl::execd
