// Moves the memory of paused sandboxes to the swap area, and fetches it back when they go on.
//
// The area exists only while something of a sandbox is, or may be, in it. It is made for the first
// sandbox and taken down after the last, so that nothing else of the host uses it for longer.
// Processes beside the spawner do everything that takes time. Nothing is recorded: the next spawner
// asks the kernel which cgroup has what in swap.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/memory/swap_device.h"
#include "runtime/spawner/sandboxes/sandboxes.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {

class PausedMemory {
 public:
  using Done = std::function<void(Result<wire::Reclaimed>)>;

  // All references outlive this object.
  PausedMemory(const Host& host, EventLoop& loop, Sandboxes& sandboxes);

  // Call once, when the sandboxes have been adopted: finds out what an earlier spawner has left in
  // swap.
  void Start();

  // Moves as much memory as it can of a sandbox that stands still to swap. Calls `done` with what
  // is there then, or with the reason why the memory stays where it is. kUnimplemented: no swap
  // area is configured. kResourceExhausted: there is none, or it has not enough room.
  // kFailedPrecondition: the sandbox does not stand still, or goes on meanwhile.
  void Reclaim(const std::string& id, Done done);
  // The sandbox is about to go on, or to end: stops moving its memory to swap.
  void Stop(const std::string& id);
  // The sandbox has gone on: fetches its memory from swap.
  void Fetch(const std::string& id);
  // The sandbox is gone: forgets it.
  void Forget(const std::string& id);
  // Returns whether a process of ours works on the slot. Its cgroup must not be removed meanwhile,
  // because the removal would wait for that process.
  bool Busy(uint32_t slot) const;

  // Ends the processes that are under way. What is in swap stays there.
  void Abandon();
  // Takes the area down before the spawner ends. Calls `done` within ten seconds.
  void TurnOff(std::function<void(Status)> done);

  // Returns true if `pid` was one of these processes.
  bool OnChildExit(pid_t pid);

 private:
  enum class Area : uint8_t { kOff, kTurningOn, kOn, kTurningOff };
  struct Waiting {
    std::string id;
    Done done;
  };
  struct Run {
    std::string id;     // the sandbox; empty: the area itself
    uint32_t slot = 0;  // the sandbox's slot
    bool fetches = false;
    bool stopped = false;
    uint64_t bytes = 0;  // space in the area, reserved while this runs
    UniqueFd result;
    Done done;
  };

  SwapPlace Place() const;
  // Starts what can be started now.
  void Advance();
  void Begin(Waiting waiting);
  Result<pid_t> TryBegin(const std::string& id, Run* run);
  void TurnLater(Area to);
  void AreaTurned(const Status& status);
  void BeginFetch(const std::string& id);
  const Run* RunOf(const std::string& id) const;

  const Host& host_;
  EventLoop& loop_;
  Sandboxes& sandboxes_;
  Area area_ = Area::kOff;
  bool try_later_ = false;  // the area could not be turned off
  std::function<void(Status)> off_;
  std::deque<Waiting> waiting_;
  std::deque<std::string> to_fetch_;
  std::set<std::string> out_;  // sandboxes that have something in swap, or may have
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
