// A slot is what a sandbox needs and no image decides: id range, cgroup, upper directory, all seven
// namespaces, and in them an execd that waits at its gate. Slots are made ahead of time in a
// process of its own, so that the spawner goes on serving: a slot costs some two milliseconds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {

// What came of one request. `reply` has the process in `pid` (the spawner's child) and the steps'
// durations, or the error and its step.
struct BuiltSlot {
  uint32_t number = 0;
  wire::Reply reply;
  UniqueFd gate;       // see wire/start.h; closed without a word, execd ends
  UniqueFd rtnetlink;  // a NETLINK_ROUTE socket inside the slot's network namespace
};

class SlotBuilder {
 public:
  // Forks. `host` is borrowed, and copied by that. `in_child` closes what is not the builder's.
  static Result<SlotBuilder> Start(const Host& host, const std::function<void()>& in_child);

  // `control` and `listener`: execd's, see wire/start.h; borrowed until it returns.
  Status Ask(uint32_t slot, const cgroup::Limits& limits, int control, int listener) const;
  // Blocks until a slot is done, in the order of asking. An error: the process has ended.
  Result<BuiltSlot> Receive() const;

  int channel() const { return channel_.get(); }  // readable: Receive does not block
  pid_t pid() const { return pid_; }

 private:
  SlotBuilder(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_;
  UniqueFd channel_;
};

}  // namespace atl::spawner
