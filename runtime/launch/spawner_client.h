// The daemon's end of the spawner connection. Thread rule: on the loop; nothing blocks; callbacks
// run on the loop, each exactly once (with kUnavailable if the connection breaks first).
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

  // Connects and says hello, blocking (at start, before the loop runs). `hello` receives what the
  // spawner is and which sandboxes it holds.
  static Result<std::unique_ptr<SpawnerClient>> Connect(const std::string& run_dir,
                                                        wire::Reply* hello);
  virtual ~SpawnerClient() = default;

  // Begins to read replies on the loop. `on_exit` is told of every first process that ended,
  // possibly more than once for the same one; `on_lost` once, when the spawner is gone.
  virtual void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                     std::function<void()> on_lost) = 0;

  // Everything of a sandbox that no image decides, up to a parked execd. `limits` are what the
  // slot's cgroup gets ahead of time; a build writes only what its plan has different. Prepared
  // slots live as long as this connection.
  // `control` and `listener` are borrowed until the call returns: execd's ends, see wire/start.h.
  virtual void PrepareSlot(uint32_t slot, const wire::Limits& limits, int control, int listener,
                           Done<PreparedSlot> done) = 0;
  virtual void DropSlot(uint32_t slot, Finished done) = 0;

  // Puts the image's root into a prepared slot. The claim is a wire::StartMessage on the other end
  // of its `control`; it may have been written before.
  virtual void Build(const wire::Plan& plan, Done<Built> done) = 0;

  virtual void SetLimits(const std::string& id, const wire::Limits& limits, Finished done) = 0;
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

  // Destroys everything and ends the spawner.
  virtual void Stop(Finished done) = 0;
};

}  // namespace atl::launch
