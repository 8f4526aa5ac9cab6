// A real atoll-spawner with directories of its own, and a client connected to it.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/spawner_client.h"
#include "runtime/wire/plan.h"
#include "tests/priv/priv_test.h"
#include "tests/support/poll_loop.h"

namespace atl::priv {

// Gives a file of a layer to the image's root user. The store keeps that user as an id of its own.
void Own(const std::filesystem::path& path);

class SpawnerFixture {
 public:
  // Prepares a data directory before the spawner starts. The fixture keeps the returned object
  // until the spawner has ended.
  using Furnish = std::function<std::shared_ptr<void>(const std::string& data_dir)>;
  // Starts the spawner with the stand-in for execd, or with the real execd. Layer 1 is a busybox
  // root. `flags` are added to the spawner's command line.
  explicit SpawnerFixture(const std::string& execd_variable = "ATOLL_START_AND_EXEC",
                          const Furnish& furnish = {}, std::vector<std::string> flags = {});
  ~SpawnerFixture();

  launch::SpawnerClient& client() { return *client_; }
  testing::PollLoop& loop() { return loop_; }
  const wire::Greeting& hello() const { return hello_; }
  pid_t pid() const { return pid_; }
  // Returns the slot builders that are children of this spawner, or orphans of an earlier one.
  std::vector<pid_t> Builders() const { return Workers("atoll-slots"); }
  // Returns the spawner's forks with this process name. They have executed no other program.
  std::vector<pid_t> Workers(const std::string& name) const;
  std::string data_dir() const { return scratch_ / "data"; }
  std::string run_dir() const { return scratch_ / "run"; }

  void Connect();
  // Opens a connection without the client type, which would prevent misbehaviour.
  static UniqueFd RawConnection(const std::string& run_dir);
  void StartProcess();
  void KillProcess();
  // Waits for the end of a spawner that was told to stop.
  void AwaitEnd();
  // Waits until the present connection has ended.
  void AwaitLost();

  // The limits that a daemon sends if a request names none.
  static cgroup::Limits DefaultLimits();
  // TryPrepare tries once. Prepare retries until the leftovers of the slot's last sandbox are
  // deleted.
  Status TryPrepare(uint32_t slot, const cgroup::Limits& limits = DefaultLimits());
  Status TryPrepare(uint32_t slot, const std::string& tier);
  Status Prepare(uint32_t slot, const cgroup::Limits& limits = DefaultLimits());
  // Prepares a slot with the given descriptors for execd.
  Status Prepare(uint32_t slot, const cgroup::Limits& limits, int control, int listener,
                 const std::string& tier = std::string(wire::kNamespaceTier));
  // Requests a slot and does not wait for it. Returns when the spawner has passed the request to
  // its builder.
  Status BeginPrepare(uint32_t slot);
  static wire::Plan PlanFor(uint32_t slot);

  struct Sandbox {
    wire::Plan plan;
    UniqueFd control;
    wire::Built built;
  };
  // Prepares the slot and builds a sandbox. The result has the other end of execd's control socket.
  Result<Sandbox> Build(uint32_t slot);
  Result<Sandbox> Build(const wire::Plan& plan);
  Status Destroy(const std::string& id);
  Result<wire::EndReading> DestroyAndRead(const std::string& id, bool keep_reading = true);
  // Settles readings and returns those that are left.
  Result<std::vector<wire::SandboxEnd>> Settle(const std::vector<std::string>& ids);

  // Claims the sandbox: runs `script` with busybox sh as the entrypoint.
  static void Claim(const Sandbox& sandbox, const std::string& script);
  // Builds and claims a sandbox, reads everything that it prints, and destroys it.
  std::string Run(const std::string& script, uint32_t slot = 1);
  static std::string ReadToEnd(int fd);

  std::vector<wire::SandboxRecord> exits;

 private:
  void RemoveGroup() const;
  Status TryPrepare(uint32_t slot, const cgroup::Limits& limits, const std::string& tier);
  std::map<uint32_t, UniqueFd> controls_;  // execd's control sockets, by prepared slot
  ScratchDir scratch_;
  std::shared_ptr<void> furniture_;
  std::string execd_;
  const std::vector<std::string> flags_;
  pid_t pid_ = -1;
  testing::PollLoop loop_;
  wire::Greeting hello_;
  std::unique_ptr<launch::SpawnerClient> client_;
  bool lost_ = false;
};

}  // namespace atl::priv
