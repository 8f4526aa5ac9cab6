// /code…: what upstream answers where no Jupyter server is configured. A request that names no
// language is a shell command; the kernel languages are not offered by execd itself.
#pragma once

#include <memory>

#include "execd/http/exchange.h"
#include "execd/run/command.h"
#include "execd/sandbox.h"

namespace atl::execd {

class CodeRoutes {
 public:
  explicit CodeRoutes(Commands* commands) : commands_(*commands) {}
  void Run(const std::shared_ptr<Exchange>& exchange);             // POST /code
  void CreateContext(const std::shared_ptr<Exchange>& exchange);   // POST /code/context
  void ListContexts(const std::shared_ptr<Exchange>& exchange);    // GET /code/contexts
  void DeleteContexts(const std::shared_ptr<Exchange>& exchange);  // DELETE /code/contexts
  void OneContext(const std::shared_ptr<Exchange>& exchange);  // GET, DELETE /code/contexts/{id}

 private:
  Commands& commands_;
};

}  // namespace atl::execd
