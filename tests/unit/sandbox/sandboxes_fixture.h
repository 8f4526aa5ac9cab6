// Sandboxes among fakes, with a store of their own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sandbox/sandboxes.h"
#include "tests/unit/sandbox/event_kinds.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {

inline const tenants::Caller kCaller;
inline constexpr int64_t kSecond = 1'000'000;

inline int Exit(int code) {
  return code << 8;
}

class SandboxesTest : public testing::Test {
 protected:
  SandboxesTest();
  ~SandboxesTest() override;

  // Starts a new daemon: new memory, the same store and host.
  void Boot(const wire::Greeting& hello);

  static Wanted Want();

  struct Answer {
    bool called = false;
    Result<Sandbox> result = Fail(Code::kInternal, "not answered");
  };
  std::shared_ptr<Answer> Create(Wanted wanted = Want());
  // Creates a running sandbox. `execd` is execd's end of its control socket.
  std::string CreateRunning(Wanted wanted = Want());
  void ReportFailure(const std::string& why);
  void Ended(const std::string& id, int wait_status, bool oom = false, bool known = true);
  wire::SandboxRecord Present(const std::string& id);
  bool SocketExists(const std::string& id);
  std::vector<Sandbox> Stored();
  std::string Kinds(const std::string& id) { return KindsOf(*history, id); }

  std::string directory;
  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner spawner{loop};
  FakeNetwork network;
  FakeImages images;
  Health health;
  tenants::TenantTable tenants;
  Sandboxes::Settings config;
  std::set<uint32_t> gone_slots;  // slots whose processes have ended
  SlotPool::Config pool_config;
  EntrypointLogs::Config log_config;
  size_t build_queue = 1024;
  std::unique_ptr<Store> store;
  std::unique_ptr<VolumeStore> volume_store;
  Snapshots::Config snapshot_config;
  std::unique_ptr<SnapshotStore> snapshot_store;
  std::unique_ptr<PoolStore> pool_store;
  std::unique_ptr<TemplateStore> template_store;
  std::unique_ptr<SlotPool> pool;
  std::unique_ptr<Admission> admission;
  FakePuller puller;
  std::unique_ptr<PendingImports> imports;
  std::unique_ptr<Volumes> volumes;
  ObjectVolumes objects{
      spawner, {*wire::ParseObjectStore("store https://s3.example bucket=data credentials=/k")}};
  std::unique_ptr<Snapshots> snapshots;
  std::unique_ptr<EntrypointLogs> logs;
  std::unique_ptr<History> history;
  std::unique_ptr<Sandboxes> sandboxes;
  tenants::Caller who;  // the caller of Create
  UniqueFd execd;
};

}  // namespace atl::sandbox
