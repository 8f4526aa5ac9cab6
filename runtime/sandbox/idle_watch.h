// Tells which sandboxes nobody uses.
//
// In use is one that a request is under way to (a stream or a terminal that is open is a request
// for as long as it is), or that computes: whose processes have taken more than a hundredth of one
// processor between two looks. A look is one small file of the kernel's, read each quarter of its
// time to idle, at most each 15 seconds. What only waits, nobody waiting for it, is idle: a server
// between two requests, a command in the background that sleeps, an open connection to elsewhere.
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

  // It runs, and counts as used at this moment. `idle` is told once, when it has not been for so
  // long; then it is to be watched again.
  void Watch(const std::string& id, uint32_t slot, int64_t after_seconds);
  // It does not run (any more).
  void Rest(const std::string& id);
  // There is no such sandbox any more.
  void Forget(const std::string& id) { Rest(id), watched_.erase(id); }

  // In use until the last copy is gone, whether or not it is watched.
  std::shared_ptr<const void> Use(const std::string& id);

 private:
  struct Uses {
    size_t open = 0;
    int64_t last_us = 0;
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

  Loop& loop_;
  const Clock& clock_;
  const CpuMicros cpu_micros_;
  const Idle idle_;
  std::unordered_map<std::string, Watched> watched_;
};

}  // namespace atl::sandbox
