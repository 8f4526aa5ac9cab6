// Detects idle sandboxes.
//
// A sandbox is busy while a request that it has answered successfully is open (a stream or a
// terminal counts while it is open), or while its processes use more than 1 % of one CPU between
// two samples. Everything else is idle: a server between two requests, a sleeping background
// command, an open outgoing connection. A sample reads one small kernel file. The interval is a
// quarter of the time to idle, but no more than 15 seconds.
//
// An unanswered request delays the pause, because its answer would stall, but it does not count as
// use. If the sandbox refuses the request, the time to idle goes on as if the request had not come.
// If the sandbox was resumed for that request alone, it is idle again at once, whatever it computed
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
  // Returns the CPU time of the slot's sandbox since it began.
  using CpuMicros = std::function<Result<uint64_t>(uint32_t slot)>;
  using Idle = std::function<void(const std::string& id)>;
  IdleWatch(Loop& loop, const Clock& clock, CpuMicros cpu_micros, Idle idle)
      : loop_(loop), clock_(clock), cpu_micros_(std::move(cpu_micros)), idle_(std::move(idle)) {}
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;
  ~IdleWatch();

  // The sandbox runs from now on. This moment counts as use, unless the sandbox was resumed for
  // requests that are still unanswered. Calls `idle` once, after `after_seconds` without use. Call
  // Watch again after that.
  void Watch(const std::string& id, uint32_t slot, int64_t after_seconds);
  // The sandbox is paused or ended.
  void Rest(const std::string& id);
  // The sandbox is gone.
  void Forget(const std::string& id);

  class Request;
  // Registers a request to the sandbox, watched or not. The request ends with the last copy.
  std::shared_ptr<Request> Open(const std::string& id);

 private:
  struct Uses {
    size_t open = 0;                // open requests
    size_t answered = 0;            // open requests that count as use
    bool unused = false;            // no use since it runs
    int64_t last_us = 0;            // time of the last use
    std::function<void()> refused;  // null: the watch or the sandbox is gone
  };
  struct Watched {
    uint32_t slot = 0;
    int64_t after_us = 0;
    std::shared_ptr<Uses> uses = std::make_shared<Uses>();  // shared with open requests
    uint64_t cpu_micros = 0;                                // value at the last sample
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
  // The sandbox has answered successfully: the request counts as use until it ends.
  void Count();

 private:
  const std::shared_ptr<Uses> uses_;
  const Clock& clock_;
  bool counted_ = false;
};

}  // namespace atl::sandbox
