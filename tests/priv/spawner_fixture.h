// A real atoll-spawner with directories of its own, and the client that talks to it.
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

// Gives a file of a layer to its root, which the store keeps as an id of its own.
void Own(const std::filesystem::path& path);

class SpawnerFixture {
 public:
  // Furnishes a data directory; what it returns is kept until the spawner has ended.
  using Furnish = std::function<std::shared_ptr<void>(const std::string& data_dir)>;
  // Starts it with the stand-in for execd, or the real one. Layer 1 is a busybox root.
  // `flags`: more of the spawner's command line.
  explicit SpawnerFixture(const std::string& execd_variable = "ATOLL_START_AND_EXEC",
                          const Furnish& furnish = {}, std::vector<std::string> flags = {});
  ~SpawnerFixture();

  launch::SpawnerClient& client() { return *client_; }
  testing::PollLoop& loop() { return loop_; }
  const wire::Greeting& hello() const { return hello_; }
  pid_t pid() const { return pid_; }
  // The builders of slots that it has, or has left.
  std::vector<pid_t> Builders() const { return Workers("atoll-slots"); }
  // Forks of it, without a program of their own, that go by this name.
  std::vector<pid_t> Workers(const std::string& name) const;
  std::string data_dir() const { return scratch_ / "data"; }
  std::string run_dir() const { return scratch_ / "run"; }

  void Connect();
  // One without the client type, which cannot misbehave.
  static UniqueFd RawConnection(const std::string& run_dir);
  void StartProcess();
  void KillProcess();
  // Of one that was told to stop.
  void AwaitEnd();
  // Until the present connection has ended.
  void AwaitLost();

  // What a daemon sends when nobody asks for anything.
  static cgroup::Limits DefaultLimits();
  // Once, and until what the slot's last sandbox has left is deleted.
  Status TryPrepare(uint32_t slot, const cgroup::Limits& limits = DefaultLimits());
  Status TryPrepare(uint32_t slot, const std::string& tier);
  Status Prepare(uint32_t slot, const cgroup::Limits& limits = DefaultLimits());
  // With these descriptors for execd.
  Status Prepare(uint32_t slot, const cgroup::Limits& limits, int control, int listener,
                 const std::string& tier = std::string(wire::kNamespaceTier));
  // Only asks; returns when the spawner has passed it on to its builder.
  Status BeginPrepare(uint32_t slot);
  static wire::Plan PlanFor(uint32_t slot);

  struct Sandbox {
    wire::Plan plan;
    UniqueFd control;
    wire::Built built;
  };
  // Prepares the slot and builds. The other end of execd's control socket is in the result.
  Result<Sandbox> Build(uint32_t slot);
  Result<Sandbox> Build(const wire::Plan& plan);
  Status Destroy(const std::string& id);

  // Claims: runs `script` with busybox sh as the entrypoint.
  static void Claim(const Sandbox& sandbox, const std::string& script);
  // Build, claim, everything it prints, destroy.
  std::string Run(const std::string& script, uint32_t slot = 1);
  static std::string ReadToEnd(int fd);

  std::vector<wire::SandboxRecord> exits;

 private:
  void RemoveGroup() const;
  Status TryPrepare(uint32_t slot, const cgroup::Limits& limits, const std::string& tier);
  std::map<uint32_t, UniqueFd> controls_;  // of prepared slots
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
