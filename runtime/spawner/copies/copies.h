// Makes layers of what sandboxes have written. A process of atoll-unpack for each copy reads the
// upper directory through a read-only mount. Whenever it asks for that, the sandbox is held still
// (runtime/wire/unpack.h).
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
#include "runtime/wire/reply.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

class Copies {
 public:
  using Done = std::function<void(Result<wire::Copied>)>;

  // All references outlive this object.
  Copies(const Host& host, EventLoop& loop, Sandboxes& sandboxes, Janitor& janitor)
      : host_(host), loop_(loop), sandboxes_(sandboxes), janitor_(janitor) {}

  // Calls `done` when the layer is on the disk, unpublished, or, after a failure, when nothing of
  // it is left.
  void Start(const wire::CopyUpper& wanted, Done done);
  // The daemon has gone: ends all copies, and lets their sandboxes go on.
  void Abandon();
  // Returns true if `pid` was the process of a copy.
  bool OnChildExit(pid_t pid, int wait_status);

 private:
  // State of the sandbox as the copy sees it: running, asked to stand still, standing still.
  enum class Stage : uint8_t { kRuns, kHolding, kStands };
  struct Run {
    std::string id;
    wire::LayerId layer = 0;
    UniqueFd conversation;
    EventLoop::Id watch = 0;
    EventLoop::Id patience = 0;
    std::string text;
    Stage stage = Stage::kRuns;
    int stops = 0;
    int64_t held_since_us = 0;
    uint64_t held_micros = 0;
    Status failed;  // an error that its output does not show
    Done done;
  };
  Result<pid_t> Begin(const wire::CopyUpper& wanted, Run* run);
  void OnReadable(pid_t pid);
  void OnText(pid_t pid, Run& run);
  void OnHeld(pid_t pid, const Status& held);
  Status LetGo(Run& run);
  static void GiveUp(pid_t pid, Run& run, const Status& why);

  const Host& host_;
  EventLoop& loop_;
  Sandboxes& sandboxes_;
  Janitor& janitor_;
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
