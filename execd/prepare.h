// Prepares a sandbox that becomes a template (runtime/wire/preparation.h): waits until it is ready,
// runs its warm-up, and starts a kernel in advance. Its programs run as commands do, but execd
// keeps only the end of their output, to explain a failure.
//
// Thread rule: the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/code/code.h"
#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/run/checked_run.h"
#include "runtime/wire/preparation.h"

namespace atl::execd {

class Preparing : public std::enable_shared_from_this<Preparing> {
 public:
  // Answers the exchange when the preparation has finished or failed. `core` and `code` are
  // borrowed and must outlive it.
  static void Serve(Core* core, CodeRoutes* code, const std::shared_ptr<Exchange>& exchange);

  Preparing(Core* core, CodeRoutes* code, Exchange* exchange, wire::Preparation wanted)
      : core_(*core), code_(*code), exchange_(exchange), wanted_(std::move(wanted)), run_(core) {}
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;
  ~Preparing() { End(); }

 private:
  using Then = void (Preparing::*)(const std::string& failure);

  void Begin();
  void Probe();
  void TryPort();
  void Tried(const std::string& failure);
  void Await();
  void WarmUp();
  void WarmedUp(const std::string& failure);
  void StartKernel();
  // Runs a program to its end. Calls `then` from the loop with the reason of its failure, or with
  // an empty string.
  void Run(std::vector<std::string> argv, Then then);
  // Answers the exchange. An empty `failure` means success.
  void Answer(const std::string& failure);
  // Stops everything that is in progress.
  void End();

  Core& core_;
  CodeRoutes& code_;
  Exchange* const exchange_;  // alive until answered or closed; then this ends
  const wire::Preparation wanted_;
  std::string doing_;   // current step, for error messages
  std::string failed_;  // failure of the last attempt
  int64_t pause_us_ = 0;
  EventLoop::Id deadline_ = 0, timer_ = 0, watch_ = 0;
  UniqueFd socket_;
  CheckedRun run_;
  bool ended_ = false;
};

}  // namespace atl::execd
