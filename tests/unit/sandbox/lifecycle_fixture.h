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
#include "runtime/wire/bytes.h"
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
    pool_config.ready = 2;
    pool_config.socket_directory = directory;
    store = std::move(*Store::Open(directory + ".db"));
    Boot({});
  }
  ~LifecycleTest() override {
    lifecycle.reset();
    store.reset();
    std::filesystem::remove_all(directory);
    for (const char* end : {".db", ".db-wal", ".db-shm"}) {
      std::filesystem::remove(directory + end);
    }
  }

  // A daemon that starts: new memory, the same store and host.
  void Boot(const wire::Reply& hello) {
    lifecycle.reset();
    pool = std::make_unique<SlotPool>(loop, clock, spawner, network, pool_config);
    lifecycle = std::make_unique<Lifecycle>(
        Lifecycle::Parts{loop, clock, spawner, network, images, *store, *pool, nullptr, &health},
        config);
    ASSERT_TRUE(lifecycle->Start(hello));
    loop.Pass(100'000);
  }

  static CreateSpec Spec() {
    CreateSpec spec;
    spec.image = "busybox";
    spec.entrypoint = {"sleep", "infinity"};
    return spec;
  }

  struct Answer {
    bool called = false;
    Result<Sandbox> result = Fail(Code::kInternal, "not answered");
  };
  std::shared_ptr<Answer> Create(CreateSpec spec = Spec()) {
    auto answer = std::make_shared<Answer>();
    lifecycle->Create(std::move(spec), [answer](Result<Sandbox> result) {
      EXPECT_FALSE(answer->called);
      answer->called = true;
      answer->result = std::move(result);
    });
    loop.Run();
    return answer;
  }
  // A running sandbox; execd's end of its control socket is `execd`.
  std::string CreateRunning(CreateSpec spec = Spec()) {
    const auto answer = Create(std::move(spec));
    auto build = spawner.AnswerBuild();
    EXPECT_TRUE(answer->called && answer->result);
    execd = std::move(build.control);
    return answer->result->id;
  }
  void ReportFailure(const std::string& why) {
    const std::string bytes = wire::StartReport{wire::StartReport::Kind::kFailed, why}.Encode();
    wire::Writer frame;
    frame.U32(static_cast<uint32_t>(bytes.size()));
    const std::string all = frame.Take() + bytes;
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
  std::unique_ptr<Store> store;
  std::unique_ptr<SlotPool> pool;
  std::unique_ptr<Lifecycle> lifecycle;
  UniqueFd execd;
};

}  // namespace atl::sandbox
