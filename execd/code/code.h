// Routes of the code interpreter: /code, /code/context and /code/contexts. A request that names no
// language runs as a shell command.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "execd/code/context.h"
#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/run/command.h"

namespace atl::execd {

class CodeRoutes {
 public:
  CodeRoutes(Core* core, Commands* commands)
      : core_(*core), commands_(*commands), zygote_(core), spare_(core, &zygote_) {}
  CodeRoutes(const CodeRoutes&) = delete;
  CodeRoutes& operator=(const CodeRoutes&) = delete;

  void Run(const std::shared_ptr<Exchange>& exchange);             // POST /code
  void CreateContext(const std::shared_ptr<Exchange>& exchange);   // POST /code/context
  void ListContexts(const std::shared_ptr<Exchange>& exchange);    // GET /code/contexts
  void DeleteContexts(const std::shared_ptr<Exchange>& exchange);  // DELETE /code/contexts
  void GetContext(const std::shared_ptr<Exchange>& exchange);      // GET /code/contexts/{id}
  void DeleteContext(const std::shared_ptr<Exchange>& exchange);   // DELETE /code/contexts/{id}
  // Starts the zygote and the spare kernel of the language in EXECD_WARM, if the image or the
  // create request sets it.
  void Warm();
  // Prepares a spare kernel of `language`, or its default context if its kernels cannot be spares.
  // Calls `then` once, with OK when it is ready, or with the error.
  void WarmUp(const std::string& language, Context::Then then);
  // Interrupts the run of a context. Returns false if no context with that id is running anything.
  bool Interrupt(const std::string& id);

 private:
  using Contexts = std::map<std::string, std::unique_ptr<Context>>;

  Context* Find(const std::string& id);
  Result<Context*> Add(const std::string& language, const std::string& cwd);
  Result<Context*> Default(const std::string& language, const std::string& cwd);
  Contexts::iterator Remove(Contexts::iterator at);

  // Limit on contexts, because each may hold a process of tens of megabytes and three sockets of
  // execd.
  static constexpr size_t kMaxContexts = 64;

  Core& core_;
  Commands& commands_;
  Zygote zygote_;
  Spare spare_;
  Contexts contexts_;
  std::map<std::string, std::string> defaults_;  // language → id
};

}  // namespace atl::execd
