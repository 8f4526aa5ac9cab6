// A sandbox's counters are read at its end, and the reading outlives the spawner until a daemon
// has settled it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cgroup/tree.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/sandboxes/end_readings.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

// Takes some tenths of a second of one processor, and holds 16 MiB of tmpfs.
constexpr char kWork[] =
    "/bin/busybox dd if=/dev/zero of=/dev/shm/held bs=1M count=16 2>/dev/null; "
    "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo up; ";
constexpr uint64_t kHeld = 16 << 20;

uint64_t ParentCpu(SpawnerFixture& spawner) {
  return cgroup::CpuMicrosOf(spawner.hello().cgroup_path).value_or(0);
}

void AwaitUp(const SpawnerFixture::Sandbox& sandbox) {
  char up[3];
  ASSERT_EQ(::read(sandbox.control.get(), up, 3), 3);
}

// The kernel's own sum is that of the parent group, which keeps the time of removed groups.
void ExpectCpu(uint64_t read_us, uint64_t parent_us) {
  EXPECT_GT(read_us, 50'000U);
  EXPECT_LE(read_us, parent_us);
  EXPECT_NEAR(static_cast<double>(read_us), static_cast<double>(parent_us),
              0.01 * static_cast<double>(parent_us) + 2000);
}

PRIV_TEST(SpawnerEnds, ADestroyedSandboxIsRead) {
  SpawnerFixture spawner;
  const uint64_t before = ParentCpu(spawner);
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, std::string(kWork) + "/bin/busybox sleep 1000");
  AwaitUp(*sandbox);
  const auto end = spawner.DestroyAndRead(sandbox->plan.id);
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_TRUE(end->read);
  const Instant now = SystemClock().Now();
  EXPECT_NEAR(static_cast<double>(end->ended_ms), static_cast<double>(now.unix_ms), 60'000);
  EXPECT_NEAR(static_cast<double>(end->ended_boot_ms), static_cast<double>(now.boot_ms), 60'000);
  ExpectCpu(end->meters.cpu_micros, ParentCpu(spawner) - before);
  EXPECT_GE(end->meters.memory_bytes, kHeld) << "the moment before the kill";
  EXPECT_LT(end->meters.memory_bytes, 2 * kHeld);
  EXPECT_GE(end->meters.peak_memory_bytes, kHeld);
}

PRIV_TEST(SpawnerEnds, AReadingOutlivesTheSpawnerUntilItIsSettled) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, std::string(kWork) + "/bin/busybox sleep 1000");
  AwaitUp(*sandbox);
  const auto end = spawner.DestroyAndRead(sandbox->plan.id);
  ASSERT_TRUE(end && end->read);
  spawner.KillProcess();
  spawner.StartProcess();
  spawner.Connect();
  const auto left = spawner.Settle({});
  ASSERT_TRUE(left && left->size() == 1);
  EXPECT_EQ(left->front().id, sandbox->plan.id);
  EXPECT_EQ(left->front().reading.meters.cpu_micros, end->meters.cpu_micros);
  const auto again = spawner.DestroyAndRead(sandbox->plan.id);
  ASSERT_TRUE(again) << "its daemon has not heard the answer";
  EXPECT_EQ(again->meters.cpu_micros, end->meters.cpu_micros);

  const auto settled = spawner.Settle({sandbox->plan.id, "unknown"});
  ASSERT_TRUE(settled);
  EXPECT_TRUE(settled->empty());
  EXPECT_TRUE(fs::is_empty(spawner.run_dir() + "/spawner/ends"));
  EXPECT_FALSE(spawner.DestroyAndRead(sandbox->plan.id)->read);
}

PRIV_TEST(SpawnerEnds, ASandboxThatEndsWithoutASpawnerIsRead) {
  SpawnerFixture spawner;
  const uint64_t before = ParentCpu(spawner);
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, std::string(kWork) + "read line <&0; exit 0");
  AwaitUp(*sandbox);
  spawner.KillProcess();
  const auto pidfd = sys::PidfdOpen(static_cast<pid_t>(sandbox->built.pid));
  ASSERT_TRUE(pidfd && sys::PidfdSignal(pidfd->get(), SIGKILL));
  pollfd ended{pidfd->get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
  spawner.StartProcess();
  spawner.Connect();
  const auto end = spawner.DestroyAndRead(sandbox->plan.id);
  ASSERT_TRUE(end && end->read);
  ExpectCpu(end->meters.cpu_micros, ParentCpu(spawner) - before);
  EXPECT_EQ(end->meters.memory_bytes, 0U) << "nobody killed it, so nobody knows";
  EXPECT_GE(end->meters.peak_memory_bytes, kHeld);
}

PRIV_TEST(SpawnerEnds, NothingIsKeptForADaemonThatMetersNothing) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  const auto end = spawner.DestroyAndRead(sandbox->plan.id, false);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->read);
  EXPECT_TRUE(spawner.Settle({})->empty());
  EXPECT_TRUE(fs::is_empty(spawner.run_dir() + "/spawner/ends"));
  EXPECT_TRUE(fs::is_empty(spawner.run_dir() + "/spawner/records"));
}

PRIV_TEST(SpawnerEnds, ABuildThatFailsLeavesNoReading) {
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.volumes = {{.source = "absent", .target = "/data"}};
  EXPECT_FALSE(spawner.Build(plan));
  EXPECT_TRUE(spawner.Settle({})->empty());
}

PRIV_TEST(SpawnerEnds, TheBytesOfItsLinkAreRead) {
  SpawnerFixture spawner;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in discard{.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {}, .sin_zero = {}};
  discard.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string packet(1000, 'x');
  for (int i = 0; i < 10; ++i) {
    ::sendto(socket.get(), packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&discard),
             sizeof discard);
  }
  ASSERT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.link = "lo";
  auto sandbox = spawner.Build(plan);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  const auto end = spawner.DestroyAndRead(plan.id);
  ASSERT_TRUE(end);
  EXPECT_GE(end->bytes_in, 10 * packet.size());
  EXPECT_GE(end->bytes_out, 10 * packet.size());
  ASSERT_TRUE(spawner.Prepare(2));
  plan = SpawnerFixture::PlanFor(2);
  plan.link = "../../kernel";
  EXPECT_FALSE(spawner.Build(plan));
}

PRIV_TEST(SpawnerEnds, TheOldestReadingsGoFirst) {
  const ScratchDir scratch;
  fs::create_directories(scratch / "records");
  fs::create_directories(scratch / "ends");
  const auto records = sys::Open(scratch / "records", O_RDONLY | O_DIRECTORY);
  const auto open = [&] { return sys::Open(scratch / "ends", O_RDONLY | O_DIRECTORY); };
  const auto id = [](int n) { return "3f2504e0-4f89-41d3-9a0c-0305e82c330" + std::to_string(n); };
  const auto ids = [](const spawner::EndReadings& ends) {
    std::vector<std::string> found;
    for (const wire::SandboxEnd& end : ends.Oldest()) found.push_back(end.id);
    return found;
  };
  spawner::EndReadings ends(std::move(*open()), 3);
  for (int n = 1; n <= 5; ++n) {
    spawner::Record record;
    record.sandbox.id = id(n);
    record.end.read = true;
    // The wall clock goes back meanwhile.
    record.end.ended_ms = 10 - n;
    record.end.ended_boot_ms = n;
    ASSERT_TRUE(spawner::CreateRecord(records->get(), record));
    ASSERT_TRUE(ends.Keep(records->get(), record));
  }
  EXPECT_EQ(ids(ends), (std::vector{id(3), id(4), id(5)}));
  spawner::EndReadings next(std::move(*open()), 3);
  ASSERT_TRUE(next.Load());
  EXPECT_EQ(ids(next), ids(ends));
}

}  // namespace
}  // namespace atl::priv
