// Makes layers of what sandboxes have written: a process of atoll-unpack for each, which reads the
// upper directory through a mount that cannot be written to, and the sandbox held still whenever it
// asks for that (runtime/wire/unpack.h).
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

  // All outlive it.
  Copies(const Host& host, EventLoop& loop, Sandboxes& sandboxes, Janitor& janitor)
      : host_(host), loop_(loop), sandboxes_(sandboxes), janitor_(janitor) {}

  // `done` when the layer is on the disk, unpublished, or nothing of it is left.
  void Start(const wire::CopyUpper& wanted, Done done);
  // Nobody waits for them any more: all are given up, and no sandbox stands still for them.
  void Abandon();
  // True if `pid` was one of ours.
  bool OnChildExit(pid_t pid, int wait_status);

 private:
  // Of the sandbox, as far as the copy wants it.
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
    Status failed;  // for a reason that its own words do not tell
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
