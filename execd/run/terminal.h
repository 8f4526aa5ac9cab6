// Terminals: /pty… and their WebSocket. A terminal is a shell on a pseudo-terminal (or on pipes)
// that outlives its client. The last 1 MiB of its output is kept and replayed from the offset that
// the next client asks for. A shell that has ended is started again for the next client. A program
// or command that the client named is not.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

class Terminal;

class Terminals {
 public:
  static constexpr size_t kMaxTerminals = 64;

  explicit Terminals(Core* core);
  Terminals(const Terminals&) = delete;
  Terminals& operator=(const Terminals&) = delete;
  ~Terminals();

  void Create(const std::shared_ptr<Exchange>& exchange);  // POST /pty
  void Get(const std::shared_ptr<Exchange>& exchange);     // GET /pty/{id}
  void Delete(const std::shared_ptr<Exchange>& exchange);  // DELETE /pty/{id}
  void Attach(const std::shared_ptr<Exchange>& exchange);  // GET /pty/{id}/ws

 private:
  std::shared_ptr<Terminal> Find(const std::shared_ptr<Exchange>& exchange);
  Core& core_;
  std::map<std::string, std::shared_ptr<Terminal>> terminals_;
};

}  // namespace atl::execd
