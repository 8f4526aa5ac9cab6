// Isolated sessions of sandboxes: made by a process each, which the sandbox may hold up; ended
// here.
//
// Nothing is kept of one that is made. It is its group and its directory in the store, both of its
// number, which the next spawner finds as this one does; its processes end with the sandbox's
// process 1, whose pid namespace theirs is beneath.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/sandboxes/sandboxes.h"
#include "runtime/spawner/store/janitor.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

class Sessions {
 public:
  using Done = std::function<void(Status)>;

  Sessions(const Host& host, EventLoop& loop, const Sandboxes& sandboxes, Janitor& janitor)
      : host_(host), loop_(loop), sandboxes_(sandboxes), janitor_(janitor) {}

  // kFailedPrecondition: the sandbox stands still, or is about to. No process is born in one that
  // does: whoever freezes it waits until none is being made (Sandboxes::SetGivingBirth).
  void Make(wire::MakeSession message, Done done);
  void End(const std::string& id, uint32_t number, Done done);
  // One of a slot's is being made: its group cannot be removed yet, nor frozen.
  bool Building(uint32_t slot) const;
  // Ends those that are being made. Nobody is told.
  void Abandon();

 private:
  struct Build {
    uint32_t slot = 0;
    pid_t pid = 0;
    std::string group;
    UniqueFd report;
    EventLoop::Id watch = 0;
    Done done;
  };
  void OnReport(uint64_t number);
  void Kill(const std::string& group);
  void AwaitEnd(const std::string& id, uint32_t slot, uint32_t number, int64_t since_us,
                int64_t again_us, const Done& done);
  Status Remove(uint32_t slot, uint32_t number);

  const Host& host_;
  EventLoop& loop_;
  const Sandboxes& sandboxes_;
  Janitor& janitor_;
  std::map<uint64_t, Build> builds_;
  uint64_t last_build_ = 0;
};

}  // namespace atl::spawner
