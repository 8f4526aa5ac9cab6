// Builds slots. A slot is the part of a sandbox that no image decides: id range, cgroup, upper
// directory, all seven namespaces, and an execd in them that waits at its gate. A process of its
// own builds slots ahead of time, so that the spawner goes on serving: a slot costs some two
// milliseconds.
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

// The result of one request.
struct BuiltSlot {
  struct Parts {
    static constexpr uint8_t kType = 1;
    UniqueFd gate;  // see wire/start.h; execd ends if it closes without a byte
    wire::PreparedSlot prepared;

    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.gate, self.prepared);
    }
  };
  uint32_t slot = 0;
  uint32_t pid = 0;  // execd, the spawner's child; may exist (not 0) although the build failed
  std::variant<Parts, wire::Failed> outcome;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.pid, self.outcome);
  }
};

class SlotBuilder {
 public:
  // Forks. `host` and `tiers` are borrowed, and copied by the fork.
  static Result<SlotBuilder> Start(const Host& host, const Tiers& tiers);

  // Neither call blocks. Results come in the order of the requests. EAGAIN: nothing has come yet.
  // Any other error: the process has ended.
  Status Ask(const wire::PrepareSlot& message) const;
  Result<BuiltSlot> Receive() const;

  int channel() const { return channel_.get(); }  // readable: a result has come
  pid_t pid() const { return pid_; }

 private:
  SlotBuilder(pid_t pid, UniqueFd channel) : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_;
  UniqueFd channel_;
};

}  // namespace atl::spawner
