// The daemon's end of the spawner connection. Thread rule: on the loop; nothing blocks; callbacks
// run on the loop, each exactly once (with kUnavailable if the connection breaks first).
//
// Requests that do not fit into the socket wait here and are sent later, in order; at most
// kDestroysAtOnce of Destroy are under way, and others pass those that wait. A spawner that answers
// nothing for some five seconds, not even whether it is there, counts as lost: what it has not read
// by then it will not carry out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::launch {

// What a build gave: the first process is running, parked.
struct Built {
  uint32_t pid = 0;
  wire::StepMicros micros{};
};

struct PreparedSlot {
  UniqueFd rtnetlink;  // a NETLINK_ROUTE socket inside the slot's network namespace
  wire::StepMicros micros{};
};

// Whether an error of Build is of that step.
bool FailedAt(const Error& error, wire::Step step);

class SpawnerClient {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Finished = std::function<void(Status)>;

  static constexpr size_t kDestroysAtOnce = 64;

  // Connects and says hello, blocking, for at most `patience_ms`. `hello` receives what the spawner
  // is and which sandboxes it holds. kNotFound, kUnavailable: there is none; kDeadlineExceeded:
  // there is one, and it does not answer.
  static constexpr int kPatienceMs = 5000;
  static Result<std::unique_ptr<SpawnerClient>> Connect(const std::string& run_dir,
                                                        wire::Reply* hello,
                                                        int patience_ms = kPatienceMs);
  // Connects and no more: a stopped spawner does not block it. Start and Hello come next.
  // kDeadlineExceeded: it is there, and has not accepted those before us.
  static Result<std::unique_ptr<SpawnerClient>> Open(const std::string& run_dir);
  // Ends the spawner and all that it holds, over a connection of its own, blocking likewise.
  static Status StopNow(const std::string& run_dir);
  virtual ~SpawnerClient() = default;

  // Begins to read replies on the loop. `on_exit` is told of every first process that ended,
  // possibly more than once for the same one; `on_lost` once, when the spawner is gone.
  virtual void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                     std::function<void()> on_lost) = 0;

  // What the spawner is and what it holds, once all answers that it has given before have been
  // passed on. Compares what it holds with the kernel, too: see stray_slots.
  // kFailedPrecondition: it speaks another protocol.
  virtual void Hello(Done<wire::Reply> done) = 0;

  // Everything of a sandbox that no image decides, up to a parked execd. `limits` are what the
  // slot's cgroup gets ahead of time; a build writes only what its plan has different. Prepared
  // slots live as long as this connection.
  // `control` and `listener` are borrowed until the call returns: execd's ends, see wire/start.h.
  virtual void PrepareSlot(uint32_t slot, const cgroup::Limits& limits, int control, int listener,
                           Done<PreparedSlot> done) = 0;
  virtual void DropSlot(uint32_t slot, Finished done) = 0;

  // Puts the image's root into a prepared slot. The claim is a wire::StartMessage on the other end
  // of its `control`; it may have been written before.
  virtual void Build(const wire::Plan& plan, Done<Built> done) = 0;

  virtual void Freeze(const std::string& id, bool frozen, Finished done) = 0;
  // Answers when processes, cgroup, mounts and files are gone. An unknown id is not an error.
  virtual void Destroy(const std::string& id, Finished done) = 0;

  virtual void SplitArchive(int archive, int directory, Done<std::string> done) = 0;
  virtual void ExtractLayer(int blob, wire::LayerId layer, Done<std::string> done) = 0;
  virtual void PublishLayer(wire::LayerId layer, Finished done) = 0;
  virtual void RemoveLayer(wire::LayerId layer, Finished done) = 0;
  virtual void ListLayers(Done<std::vector<wire::LayerId>> done) = 0;

  // Named volumes, with a disk limit (0: none). kAlreadyExists: there is a directory of that name.
  // An absent one can be removed.
  virtual void MakeVolume(const std::string& name, uint64_t disk_bytes, Finished done) = 0;
  virtual void RemoveVolume(const std::string& name, Finished done) = 0;
  virtual void VolumeUse(const std::string& name, Done<wire::VolumeUse> done) = 0;
  // Whether a build could open it; nothing is made, what is missing counts as a directory that a
  // build will make. kPermissionDenied: the spawner
  // does not allow it; kNotFound: no such named volume; kInvalidArgument: the sub path.
  virtual void CheckVolume(const wire::Volume& volume, Finished done) = 0;

  // The spawner keeps this NETLINK_NETFILTER socket open, whatever becomes of us, and no longer the
  // one that it was given before. Borrowed until the call returns.
  virtual void KeepRules(int nfnetlink, Finished done) = 0;

  // Destroys everything and ends the spawner.
  virtual void Stop(Finished done) = 0;
};

}  // namespace atl::launch
