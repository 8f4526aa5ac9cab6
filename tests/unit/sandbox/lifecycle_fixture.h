// A Lifecycle among stand-ins, with a store of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sandbox/lifecycle.h"
#include "runtime/wire/start.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {

inline constexpr int64_t kSecond = 1'000'000;

inline int Exit(int code) {
  return code << 8;
}

class LifecycleTest : public testing::Test {
 protected:
  LifecycleTest() {
    char name[] = "/tmp/lifecycle_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    config.socket_directory = directory;
    config.limits_available = {"memory", "swap", "pids", "cpu", "io"};
    config.swap_bytes = 1 << 30;
    pool_config.ready = 2;
    pool_config.socket_directory = directory;
    store = std::move(*Store::Open(directory + ".db"));
    volume_store = std::move(*VolumeStore::Open(directory + ".db"));
    snapshot_store = std::move(*SnapshotStore::Open(directory + ".db"));
    pool_store = std::move(*PoolStore::Open(directory + ".db"));
    template_store = std::move(*TemplateStore::Open(directory + ".db"));
    Boot({});
  }
  ~LifecycleTest() override {
    lifecycle.reset();
    history.reset();
    snapshots.reset();
    snapshot_store.reset();
    template_store.reset();
    pool_store.reset();
    volume_store.reset();
    store.reset();
    std::filesystem::remove_all(directory);
    for (const char* end : {".db", ".db-wal", ".db-shm"}) {
      std::filesystem::remove(directory + end);
    }
  }

  // A daemon that starts: new memory, the same store and host.
  void Boot(const wire::Greeting& hello) {
    lifecycle.reset();
    pool = std::make_unique<SlotPool>(loop, clock, spawner, network, pool_config);
    admission = std::make_unique<Admission>(2, build_queue);
    imports = std::make_unique<PendingImports>(loop, build_queue);
    volumes = std::move(*Volumes::Open(loop, clock, spawner, *volume_store, {}));
    snapshots =
        std::move(*Snapshots::Open(clock, spawner, images, *snapshot_store, snapshot_config));
    logs = std::make_unique<EntrypointLogs>(loop, clock, log_config);
    history = std::move(*History::Open(store->db(), loop));
    lifecycle = std::make_unique<Lifecycle>(
        Lifecycle::Parts{loop, clock, spawner, network, images, *store, *pool, *admission, *imports,
                         puller, *volumes, objects, *snapshots, *pool_store, *template_store, *logs,
                         *history, health},
        config);
    ASSERT_TRUE(lifecycle->Start(hello));
    loop.Pass(100'000);
  }

  static Wanted Want() {
    Wanted wanted;
    wanted.spec.image = "busybox";
    wanted.spec.entrypoint = {"sleep", "infinity"};
    return wanted;
  }

  struct Answer {
    bool called = false;
    Result<Sandbox> result = Fail(Code::kInternal, "not answered");
  };
  std::shared_ptr<Answer> Create(Wanted wanted = Want()) {
    auto answer = std::make_shared<Answer>();
    lifecycle->Create(std::move(wanted), [answer](Result<Sandbox> result) {
      EXPECT_FALSE(answer->called);
      answer->called = true;
      answer->result = std::move(result);
    });
    loop.Run();
    return answer;
  }
  // A running sandbox; execd's end of its control socket is `execd`.
  std::string CreateRunning(Wanted wanted = Want()) {
    const auto answer = Create(std::move(wanted));
    auto build = spawner.AnswerBuild();
    EXPECT_TRUE(answer->called && answer->result);
    execd = std::move(build.control);
    return answer->result->id;
  }
  void ReportFailure(const std::string& why) {
    const std::string all =
        wire::Frame(wire::StartReport{wire::StartReport::Kind::kFailed, why}.Encode());
    ASSERT_EQ(::send(execd.get(), all.data(), all.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size()));
  }
  void Ended(const std::string& id, int wait_status, bool oom = false, bool known = true) {
    wire::SandboxRecord record;
    record.id = id;
    record.exited = true;
    record.wait_status = wait_status;
    record.oom_killed = oom;
    record.code_known = known;
    lifecycle->OnExit(record);
  }
  wire::SandboxRecord Present(const std::string& id) {
    wire::SandboxRecord record;
    record.id = id;
    record.slot = lifecycle->Find(id)->slot;
    return record;
  }
  bool SocketExists(const std::string& id) {
    return std::filesystem::exists(lifecycle->SocketPathOf(id));
  }
  std::vector<Sandbox> Stored() { return *store->Load(); }

  std::string directory;
  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner spawner{loop};
  FakeNetwork network;
  FakeImages images;
  Health health;
  LifecycleConfig config;
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
  std::unique_ptr<Lifecycle> lifecycle;
  UniqueFd execd;
};

}  // namespace atl::sandbox
