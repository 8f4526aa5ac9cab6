// A real atoll-spawner with directories of its own, without a daemon. Its times are taken at its
// client's end, and by the spawner itself (StepMicros). Each layer is a copy of a busybox root.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/launch/spawner_client.h"
#include "tests/support/poll_loop.h"

namespace atl::bench {

class OwnSpawner {
 public:
  // Starts a spawner with `layers` layers. `programs` is the directory with atoll-spawner,
  // atoll-execd and atoll-unpack.
  static Result<std::unique_ptr<OwnSpawner>> Start(const std::string& programs, uint32_t layers);
  OwnSpawner(const OwnSpawner&) = delete;
  OwnSpawner& operator=(const OwnSpawner&) = delete;
  ~OwnSpawner();

  // Prepares a slot. Returns the times of the spawner's steps.
  Result<wire::StepMicros> Prepare(uint32_t slot);
  Status Drop(uint32_t slot);
  // MakeVolume returns the directory of a new volume. RemoveVolume returns when the disk holds
  // nothing of it.
  Result<std::string> MakeVolume(const std::string& name);
  Status RemoveVolume(const std::string& name);
  struct Sandbox {
    std::string id;
    UniqueFd control;
    wire::Built built;
  };
  // Builds a sandbox from the first `layers` layers in a prepared slot.
  Result<Sandbox> Build(uint32_t slot, uint32_t layers);
  Status Destroy(const Sandbox& sandbox);

 private:
  OwnSpawner() = default;
  Status Begin(const std::string& programs, uint32_t layers);
  Status MakeLayer(uint32_t number) const;
  // Blocks until the trash no longer holds `name`, or, if `name` is empty, until it holds nothing.
  Status AwaitTrash(const std::string& name) const;
  // Serves the connection until `done`.
  Status Await(const bool& done);

  std::string top_;
  pid_t pid_ = -1;
  testing::PollLoop loop_;
  std::map<uint32_t, UniqueFd> controls_;  // execd's control sockets, by prepared slot
  std::unique_ptr<launch::SpawnerClient> client_;
};

}  // namespace atl::bench
