// Makes a sandbox of a template ready (runtime/wire/preparation.h): waits for its readiness, runs
// its warm-up, starts a kernel ahead. Programs of it run as commands do, but their output is kept
// only as far as it explains a failure.
//
// Thread rule: the loop's.
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
  // Answers the exchange when all of it is done, or with why not. Both outlive it.
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
  // Runs it to its end; `then`, from the loop, with why it was no success, or nothing.
  void Run(std::vector<std::string> argv, Then then);
  // Nothing: all is done.
  void Answer(const std::string& failure);
  // Nothing of it goes on.
  void End();

  Core& core_;
  CodeRoutes& code_;
  Exchange* const exchange_;  // alive until it is answered or closed, and then we end
  const wire::Preparation wanted_;
  std::string doing_;   // for people
  std::string failed_;  // what the last try said
  int64_t pause_us_ = 0;
  EventLoop::Id deadline_ = 0, timer_ = 0, watch_ = 0;
  UniqueFd socket_;
  CheckedRun run_;
  bool ended_ = false;
};

}  // namespace atl::execd
