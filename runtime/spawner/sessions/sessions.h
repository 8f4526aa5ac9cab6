// The isolated sessions of sandboxes. A process beside the spawner makes each, because the sandbox
// may hold it up; they are ended here.
//
// Nothing is recorded of a session. It is a cgroup and a directory in the store, both named by its
// number, and the next spawner finds them by that. Its processes end with the sandbox's process 1,
// because their pid namespace is beneath that process's.
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

  // kFailedPrecondition: the sandbox is frozen, or about to be. No process is born in a frozen
  // sandbox: Freeze waits until no session is being made (Sandboxes::SetGivingBirth).
  void Make(wire::MakeSession message, Done done);
  void End(const std::string& id, uint32_t number, Done done);
  // Returns whether a session is being made in the slot. Its cgroup can then neither be removed nor
  // frozen.
  bool Building(uint32_t slot) const;
  // Ends sessions that are being made, without calling anybody's `done`.
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
