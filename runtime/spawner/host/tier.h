// A tier is one way to build the wall around a sandbox, and the verbs that depend on it.
//
// A tier is asked only for what differs between tiers. A sandbox of any tier has a slot: host ids,
// a cgroup, a network namespace and an upper directory. Its first process is born in the slot's
// cgroup with the descriptors of wire/start.h, and waits at the gate. It is execd, or it guards an
// execd behind a stronger wall (a virtual machine, a kernel in user space) and passes on what
// execd says. Every process that the tier starts for the sandbox stays in that cgroup, and what
// the sandbox writes is in the upper directory. So limits, swap, copies, differences, adoption and
// the end of a sandbox work on the cgroup, the upper directory and the first process alone, also
// for a sandbox whose tier this program does not have.
//
// A tier that cannot do one of these things on its sandboxes says so in Can; the spawner then
// refuses the request before it has any effect.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/result.h"

namespace atl::wire {
struct MakeSession;
struct Plan;
}  // namespace atl::wire

namespace atl::spawner {

struct Host;
struct RootReport;
struct Slot;
struct SlotChildInput;
struct SlotChildReport;

// Verbs that a tier may refuse. Destroy and adoption are never refused.
enum class Verb : uint8_t { kPrepare, kBuild, kLimit, kFreeze, kReclaim, kCopy, kDiff, kSession };

class Tier {
 public:
  virtual ~Tier() = default;

  // Unique, ValidTierName. Recorded with each sandbox: never given to another tier.
  virtual std::string_view name() const = 0;
  // Constant for the life of the spawner. kCopy needs kFreeze, because a copy holds the sandbox.
  // kPrepare false: this host lacks what the tier needs.
  virtual bool Can(Verb verb) const = 0;

  // Starts the first process of a slot. Runs in the builder of slots, with the contract of
  // StartSlotChild (slot_child.h).
  virtual Result<pid_t> Prepare(const SlotChildInput& input, SlotChildReport* report) const = 0;
  // Puts the root of the plan's image into a prepared slot of this tier; the caller then opens the
  // gate. `first`: a pidfd of the slot's first process. `buckets`: for each of the plan's volumes
  // the mount of a bucket, or -1. Without volumes and devices it runs in the spawner and returns
  // within kVforkSeconds. With either it runs in a process of its own, which may never come back.
  virtual RootReport Build(const wire::Plan& plan, const std::vector<int>& buckets,
                           const Slot& slot, int first) const = 0;
  // Changes what no cgroup limits in a parked sandbox: open files, /dev/shm, and the processors
  // that the sandbox sees. The rest is done. `pid` is the first process, `first` a pidfd of it.
  // Runs in the spawner and returns within kVforkSeconds. Called only if Can(kLimit).
  virtual Status Limit(uint32_t slot, int first, pid_t pid, const cgroup::Limits& now,
                       const cgroup::Limits& next) const = 0;
  // Asks all processes of the slot to stand still, or lets them go on. Does not block: whoever
  // waits asks the cgroup, which tells when they stand. A tier may first finish in its guest what
  // must be on the disk, and freeze the cgroup afterwards.
  virtual Status Freeze(uint32_t slot, bool frozen) = 0;
  // Makes an isolated session of a sandbox, with the contract of BuildSession (session_builder.h).
  // `first`: a pidfd of the sandbox's first process, and `pid` its number.
  virtual Status MakeSession(uint32_t slot, int first, pid_t pid,
                             const wire::MakeSession& message) const = 0;
};

// The tiers of this program. `host` is borrowed and outlives them.
std::vector<std::unique_ptr<Tier>> MakeTiers(const Host& host);

class Tiers {
 public:
  explicit Tiers(const Host& host) : tiers_(MakeTiers(host)) {}

  // The tier of that name, borrowed. kUnimplemented, with the name: this program has no such tier,
  // or the tier cannot do it.
  Result<Tier*> Able(std::string_view name, Verb verb) const;
  // Names of those that can prepare slots on this host.
  std::vector<std::string> Available() const;

 private:
  std::vector<std::unique_ptr<Tier>> tiers_;
};

}  // namespace atl::spawner
