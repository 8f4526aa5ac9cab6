// A slot is what a sandbox needs and no image decides: id range, cgroup, upper directory, all seven
// namespaces, and in them an execd that waits at its gate. Slots are made ahead of time in a
// process of its own, so that the spawner goes on serving: a slot costs some two milliseconds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <variant>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/host/tier.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

// What came of one request.
struct BuiltSlot {
  struct Parts {
    static constexpr uint8_t kType = 1;
    UniqueFd gate;  // see wire/start.h; closed without a word, execd ends
    wire::PreparedSlot prepared;

    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.gate, self.prepared);
    }
  };
  uint32_t slot = 0;
  uint32_t pid = 0;  // execd, the spawner's child; not 0: there is one, also if something failed
  std::variant<Parts, wire::Failed> outcome;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.pid, self.outcome);
  }
};

class SlotBuilder {
 public:
  // Forks. `host` and `tiers` are borrowed, and copied by that.
  static Result<SlotBuilder> Start(const Host& host, const Tiers& tiers);

  // Neither blocks. What is asked comes in that order; an error with EAGAIN: nothing has come yet;
  // any other: the process has ended.
  Status Ask(const wire::PrepareSlot& message) const;
  Result<BuiltSlot> Receive() const;

  int channel() const { return channel_.get(); }  // readable: something has come
  pid_t pid() const { return pid_; }

 private:
  SlotBuilder(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_;
  UniqueFd channel_;
};

}  // namespace atl::spawner
