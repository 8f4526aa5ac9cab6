// The code interpreter: /code, /code/context and /code/contexts. A request that names no language
// is a shell command.
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
  // Has zygote and spare of the language in EXECD_WARM made, if the image or the create asks for
  // it.
  void Warm();
  // The same of `language`, or its default context where kernels of it have no spare; `then`, once,
  // when that is ready, or with why it is not.
  void WarmUp(const std::string& language, Context::Then then);
  // False if no context with that id is running anything.
  bool Interrupt(const std::string& id);

 private:
  using Contexts = std::map<std::string, std::unique_ptr<Context>>;

  Context* Find(const std::string& id);
  Result<Context*> Add(const std::string& language, const std::string& cwd);
  Result<Context*> Default(const std::string& language, const std::string& cwd);
  Contexts::iterator Remove(Contexts::iterator at);

  // Each may hold a process of tens of megabytes and three sockets of ours.
  static constexpr size_t kMaxContexts = 64;

  Core& core_;
  Commands& commands_;
  Zygote zygote_;
  Spare spare_;
  Contexts contexts_;
  std::map<std::string, std::string> defaults_;  // language → id
};

}  // namespace atl::execd
