// Where the memory of paused sandboxes is: brought to the swap area when they stand still, fetched
// back when they go on.
//
// The area is there only while something of a sandbox is, or may be, in it: made for the first one,
// taken down behind the last, so that nothing else of the host finds it for longer. Everything that
// takes time is done by processes beside the spawner, and none of it is recorded: a next spawner
// asks the kernel what of which group is in swap.
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

  // All outlive it.
  PausedMemory(const Host& host, EventLoop& loop, Sandboxes& sandboxes);

  // Once, when the sandboxes have been adopted: finds out what an earlier spawner has left in swap.
  void Start();

  // Brings to swap what it can of the memory of a sandbox that stands still. `done` with what is
  // there then, or why it stays where it is: kUnimplemented: there is to be no swap area;
  // kResourceExhausted: there is none, or it has not enough room; kFailedPrecondition: it does not
  // stand still, or goes on meanwhile.
  void Reclaim(const std::string& id, Done done);
  // It is about to go on, or to end: nothing more of it goes to swap.
  void Stop(const std::string& id);
  // It has gone on: what is in swap is fetched.
  void Fetch(const std::string& id);
  // Nothing is left of it.
  void Forget(const std::string& id);
  // A process of ours is at it: its group must not be removed, which would wait for that.
  bool Busy(uint32_t slot) const;

  // Ends what is under way. What is in swap stays there.
  void Abandon();
  // The host is left: takes the area down. `done` within ten seconds.
  void TurnOff(std::function<void(Status)> done);

  // True if `pid` was one of ours.
  bool OnChildExit(pid_t pid);

 private:
  enum class Area : uint8_t { kOff, kTurningOn, kOn, kTurningOff };
  struct Waiting {
    std::string id;
    Done done;
  };
  struct Run {
    std::string id;     // of a sandbox; empty: of the area
    uint32_t slot = 0;  // its
    bool fetches = false;
    bool stopped = false;
    uint64_t bytes = 0;  // of the area, kept for it while it runs
    UniqueFd result;
    Done done;
  };

  SwapPlace Place() const;
  // Does what can be done now.
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
  bool try_later_ = false;  // it could not be turned off
  std::function<void(Status)> off_;
  std::deque<Waiting> waiting_;
  std::deque<std::string> to_fetch_;
  std::set<std::string> out_;  // of whom something is in swap, or may be
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
