// Tells which sandboxes are idle.
//
// A sandbox is in use while a request that it has answered well is open (a stream or a terminal
// counts for as long as it is open), or while its processes use more than 1 % of one CPU between
// two looks. A look reads one small file of the kernel's each quarter of the time to idle, at most
// each 15 seconds. Everything else is idle: a server between two requests, a sleeping background
// command, an open outgoing connection.
//
// A request that is still unanswered delays the pause, because its answer would stall, but it is no
// use. If the sandbox refuses the request, the time to idle goes on as if the request had not come,
// and a sandbox that was resumed for that request alone is idle again at once, whatever it computed
// meanwhile.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"

namespace atl::sandbox {

class IdleWatch {
 public:
  // Processor time of the sandbox in a slot, since it began.
  using CpuMicros = std::function<Result<uint64_t>(uint32_t slot)>;
  using Idle = std::function<void(const std::string& id)>;
  IdleWatch(Loop& loop, const Clock& clock, CpuMicros cpu_micros, Idle idle)
      : loop_(loop), clock_(clock), cpu_micros_(std::move(cpu_micros)), idle_(std::move(idle)) {}
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;
  ~IdleWatch();

  // The sandbox runs from now on. It counts as used at this moment, unless it was resumed for
  // requests that are still unanswered. Calls `idle` once, after `after_seconds` without use; call
  // Watch again then.
  void Watch(const std::string& id, uint32_t slot, int64_t after_seconds);
  // It does not run (any more).
  void Rest(const std::string& id);
  // There is no such sandbox any more.
  void Forget(const std::string& id);

  class Request;
  // A request to the sandbox, watched or not, until the last copy is gone.
  std::shared_ptr<Request> Open(const std::string& id);

 private:
  struct Uses {
    size_t open = 0;                // requests
    size_t answered = 0;            // those of them that count as use
    bool unused = false;            // since it runs
    int64_t last_us = 0;            // the last use
    std::function<void()> refused;  // null: the watch or the sandbox is gone
  };
  struct Watched {
    uint32_t slot = 0;
    int64_t after_us = 0;
    std::shared_ptr<Uses> uses = std::make_shared<Uses>();  // outlives us in who has it open
    uint64_t cpu_micros = 0;                                // at the last look
    int64_t looked_us = 0;
    Loop::Id timer = 0;
  };
  void Look(const std::string& id);
  void OnRefused(const std::string& id);

  Loop& loop_;
  const Clock& clock_;
  const CpuMicros cpu_micros_;
  const Idle idle_;
  std::unordered_map<std::string, Watched> watched_;
};

class IdleWatch::Request {
 public:
  Request(std::shared_ptr<Uses> uses, const Clock& clock);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();
  // The sandbox has answered well: the request is use from now on until it ends.
  void Count();

 private:
  const std::shared_ptr<Uses> uses_;
  const Clock& clock_;
  bool counted_ = false;
};

}  // namespace atl::sandbox
