#include "tests/unit/sandbox/sandboxes_fixture.h"

#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/wire/start.h"

namespace atl::sandbox {

SandboxesTest::SandboxesTest() {
  char name[] = "/tmp/sandboxes_XXXXXX";
  EXPECT_NE(::mkdtemp(name), nullptr);
  directory = name;
  config.socket_directory = directory;
  config.check.limits_available.keys = {"memory", "swap", "pids", "cpu", "io"};
  config.check.swap_bytes = 1 << 30;
  config.has_processes = [this](uint32_t slot) { return !gone_slots.contains(slot); };
  pool_config.ready = 2;
  pool_config.socket_directory = directory;
  store = std::move(*Store::Open(directory + ".db"));
  volume_store = std::move(*VolumeStore::Open(directory + ".db"));
  snapshot_store = std::move(*SnapshotStore::Open(directory + ".db"));
  pool_store = std::move(*PoolStore::Open(directory + ".db"));
  template_store = std::move(*TemplateStore::Open(directory + ".db"));
  Boot({});
}

SandboxesTest::~SandboxesTest() {
  sandboxes.reset();
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

void SandboxesTest::Boot(const wire::Greeting& hello) {
  sandboxes.reset();
  pool = std::make_unique<SlotPool>(loop, clock, spawner, network, pool_config);
  admission = std::make_unique<Admission>(2, build_queue);
  imports = std::make_unique<PendingImports>(loop, build_queue);
  volumes = std::move(*Volumes::Open(loop, clock, spawner, *volume_store, {}));
  snapshots = std::move(*Snapshots::Open(clock, spawner, images, *snapshot_store, snapshot_config));
  logs = std::make_unique<EntrypointLogs>(loop, clock, log_config);
  history = std::move(*History::Open(store->db(), loop));
  sandboxes = std::make_unique<Sandboxes>(
      Sandboxes::Parts{loop, clock, spawner, network, images, *store, *pool, *admission, *imports,
                       puller, *volumes, objects, *snapshots, *pool_store, *template_store, *logs,
                       *history, health, tenants},
      config);
  ASSERT_TRUE(sandboxes->reconciler.Start(hello));
  loop.Pass(100'000);
}

Wanted SandboxesTest::Want() {
  Wanted wanted;
  wanted.spec.image = "busybox";
  wanted.spec.entrypoint = {"sleep", "infinity"};
  return wanted;
}

std::shared_ptr<SandboxesTest::Answer> SandboxesTest::Create(Wanted wanted) {
  auto answer = std::make_shared<Answer>();
  sandboxes->orders.Create(who, std::move(wanted), [answer](Result<Sandbox> result) {
    EXPECT_FALSE(answer->called);
    answer->called = true;
    answer->result = std::move(result);
  });
  loop.Run();
  return answer;
}

std::string SandboxesTest::CreateRunning(Wanted wanted) {
  const auto answer = Create(std::move(wanted));
  auto build = spawner.AnswerBuild();
  EXPECT_TRUE(answer->called && answer->result);
  execd = std::move(build.control);
  return answer->result->id;
}

void SandboxesTest::ReportFailure(const std::string& why) {
  const std::string all =
      wire::Frame(wire::StartReport{wire::StartReport::Kind::kFailed, why}.Encode());
  ASSERT_EQ(::send(execd.get(), all.data(), all.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(all.size()));
}

void SandboxesTest::Ended(const std::string& id, int wait_status, bool oom, bool known) {
  wire::SandboxRecord record;
  record.id = id;
  record.exited = true;
  record.wait_status = wait_status;
  record.oom_killed = oom;
  record.code_known = known;
  sandboxes->reconciler.OnExit(record);
}

wire::SandboxRecord SandboxesTest::Present(const std::string& id) {
  wire::SandboxRecord record;
  record.id = id;
  record.slot = sandboxes->registry.Find(kCaller, id)->slot;
  return record;
}

bool SandboxesTest::SocketExists(const std::string& id) {
  return std::filesystem::exists(sandboxes->registry.SocketPathOf(id));
}

std::vector<Sandbox> SandboxesTest::Stored() {
  return *store->Load();
}

}  // namespace atl::sandbox
