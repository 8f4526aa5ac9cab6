// The life of sandboxes under the spawner: they are built, ended, killed and adopted, and nothing
// is left.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/rules/config.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

std::set<std::string> Children(const std::string& directory) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_directory()) names.insert(entry.path().filename());
  }
  return names;
}

PRIV_TEST(SpawnerLife, RunsTheEntrypointUnderItsHostname) {
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run("echo hello from $(busybox hostname); busybox cat /etc/hosts"),
            "hello from box\n127.0.0.1 localhost\n");
}

// The host ids of the last slot do not fit into an int: see MountTerminals.
PRIV_TEST(SpawnerLife, TheLastSlotHasTerminalsToo) {
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run("exec 9<>/dev/ptmx; busybox stat -c '%g %a' /dev/pts/0", spawner::kMaxSlot),
            "5 620\n");
}

PRIV_TEST(SpawnerLife, TellsHowProcessOneEnded) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, "exit 7");
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return !spawner.exits.empty(); }));
  EXPECT_EQ(spawner.exits[0].id, sandbox->plan.id);
  EXPECT_TRUE(WIFEXITED(spawner.exits[0].wait_status));
  EXPECT_EQ(WEXITSTATUS(spawner.exits[0].wait_status), 7);
  EXPECT_FALSE(spawner.exits[0].oom_killed);
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

// If the process that reads an archive is killed, the archive's sender is not to blame.
PRIV_TEST(SpawnerLife, TheDeathOfAnUnpackerIsOurs) {
  SpawnerFixture spawner;
  // A sparse file takes many seconds to read and no disk space. A larger one would be refused at
  // once.
  const std::string huge = spawner.data_dir() + "/store/fs/layers/1/huge";
  const UniqueFd file = std::move(*sys::Open(huge, O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(::ftruncate(file.get(), off_t{1} << 35), 0);
  Own(huge);
  std::optional<Result<wire::Unpacked>> packed;
  spawner.client().Ask(wire::PackLayer{1, std::move(*sys::Open("/dev/null", O_WRONLY))},
                       [&](Result<wire::Unpacked> answer) { packed.emplace(std::move(answer)); });
  const std::string pid = std::to_string(spawner.pid());
  const std::string list = "/proc/" + pid + "/task/" + pid + "/children";
  ASSERT_TRUE(spawner.loop().RunUntil([&] {
    std::istringstream children(sys::ReadFileAt(AT_FDCWD, list, 65536).value_or(""));
    for (std::string child; children >> child;) {
      const auto name = sys::ReadFileAt(AT_FDCWD, "/proc/" + child + "/comm", 64);
      if (name && *name == "atoll-unpack\n") ::kill(std::stoi(child), SIGKILL);
    }
    return packed.has_value();
  }));
  ASSERT_FALSE(*packed);
  EXPECT_EQ(packed->error().code(), Code::kInternal);
  EXPECT_EQ(packed->error().message(), "atoll-unpack was killed by signal 9");
}

PRIV_TEST(SpawnerLife, DestroyLeavesNothing) {
  SpawnerFixture spawner;
  const std::string cgroups = spawner.hello().cgroup_path;
  const std::string uppers = spawner.data_dir() + "/store/fs/uppers";
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  // All processes die: double forks, sessions of their own, a stopped process.
  SpawnerFixture::Claim(*sandbox,
                        "B=/bin/busybox; (($B setsid $B sleep 1000 &) &); $B sleep 1000 & "
                        "kill -STOP $!; echo > /file; echo up; $B sleep 1000");
  char up[3];
  ASSERT_EQ(::read(sandbox->control.get(), up, 3), 3);
  // atoll-unpack has a group of its own as long as there is a spawner.
  EXPECT_EQ(Children(cgroups), (std::set<std::string>{"s1", "unpack"}));
  EXPECT_EQ(Children(uppers), std::set<std::string>{"s1"});
  EXPECT_TRUE(fs::exists(uppers + "/s1/upper/file"));

  const Status gone = spawner.Destroy(sandbox->plan.id);
  ASSERT_TRUE(gone) << gone.error().message();
  // End of file on the control socket: the last process that held it has ended.
  EXPECT_EQ(SpawnerFixture::ReadToEnd(sandbox->control.get()), "");
  EXPECT_EQ(Children(cgroups), std::set<std::string>{"unpack"});
  EXPECT_EQ(Children(uppers), std::set<std::string>{});
  EXPECT_TRUE(fs::is_empty(spawner.run_dir() + "/spawner/records"));
  EXPECT_NE(::kill(static_cast<pid_t>(sandbox->built.pid), 0), 0);
}

PRIV_TEST(SpawnerLife, AFrozenSandboxDiesToo) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  bool frozen = false;
  spawner.client().Ask(wire::Freeze{sandbox->plan.id, true}, [&](const Status& status) {
    EXPECT_TRUE(status);
    frozen = true;
  });
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return frozen; }));
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

PRIV_TEST(SpawnerLife, MemoryLimitIsTheCauseOfDeath) {
  SpawnerFixture spawner;
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.limits.memory_bytes = 16 << 20;
  ASSERT_TRUE(spawner.Prepare(1));
  auto sandbox = spawner.Build(plan);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, "x=0123456789; while :; do x=$x$x; done");
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return !spawner.exits.empty(); }));
  EXPECT_TRUE(spawner.exits[0].oom_killed);
  EXPECT_TRUE(spawner.Destroy(plan.id));
}

PRIV_TEST(SpawnerLife, PidLimitHolds) {
  SpawnerFixture spawner;
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.limits.pids = 20;
  ASSERT_TRUE(spawner.Prepare(1));
  auto sandbox = spawner.Build(plan);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox,
                        "i=0; while test $i -lt 40; do /bin/busybox sleep 1000 & i=$((i+1)); "
                        "done 2>/dev/null; echo never");
  // The shell gives up if fork fails. The limit is 20 plus execd's reserve of 16, itself included.
  EXPECT_EQ(SpawnerFixture::ReadToEnd(sandbox->control.get()).find("never"), std::string::npos);
  EXPECT_TRUE(spawner.Destroy(plan.id));
}

PRIV_TEST(SpawnerLife, TheNextSpawnerAdopts) {
  SpawnerFixture spawner;
  auto lives = spawner.Build(1);
  auto ends = spawner.Build(2);
  ASSERT_TRUE(lives && ends);
  ASSERT_TRUE(spawner.Prepare(3));  // a slot in stock: an orphan after the crash
  spawner.KillProcess();
  // This sandbox ends while no spawner runs.
  const auto process = sys::PidfdOpen(static_cast<pid_t>(ends->built.pid));
  ASSERT_TRUE(process) << process.error().message();
  SpawnerFixture::Claim(*ends, "exit 3");
  pollfd ended{process->get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 10'000), 1);

  spawner.StartProcess();
  spawner.Connect();
  ASSERT_EQ(spawner.hello().sandboxes.size(), 2u);
  for (const wire::SandboxRecord& record : spawner.hello().sandboxes) {
    EXPECT_EQ(record.exited, record.id == ends->plan.id);
    EXPECT_EQ(record.code_known, record.id == lives->plan.id);
  }
  // The new spawner fully controls an adopted sandbox: the sandbox answers, the spawner notices its
  // end and can destroy it.
  SpawnerFixture::Claim(*lives, "echo alive");
  EXPECT_EQ(SpawnerFixture::ReadToEnd(lives->control.get()), "alive\n");
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return !spawner.exits.empty(); }));
  EXPECT_EQ(spawner.exits[0].id, lives->plan.id);
  EXPECT_TRUE(spawner.Destroy(lives->plan.id));
  EXPECT_TRUE(spawner.Destroy(ends->plan.id));
  // All slots can be used again, also the one that was in stock at the crash.
  for (uint32_t slot : {1u, 2u, 3u}) EXPECT_EQ(spawner.Run("echo again", slot), "again\n");
}

PRIV_TEST(SpawnerLife, UpgradeKeepsChildrenAndExitCodes) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  ASSERT_TRUE(spawner.Prepare(2));
  ASSERT_EQ(::kill(spawner.pid(), SIGHUP), 0);
  // The old program's connection ends when the new program takes over. Then the new one answers
  // under the same pid.
  spawner.AwaitLost();
  spawner.Connect();
  ASSERT_EQ(spawner.hello().sandboxes.size(), 1u);
  EXPECT_FALSE(spawner.hello().sandboxes[0].exited);
  SpawnerFixture::Claim(*sandbox, "exit 5");
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return !spawner.exits.empty(); }));
  EXPECT_TRUE(spawner.exits[0].code_known);
  EXPECT_EQ(WEXITSTATUS(spawner.exits[0].wait_status), 5);
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
  EXPECT_EQ(spawner.Run("echo again", 2), "again\n");
}

// Returns whether some process locks the instance file that contains `run_dir`. Empty if there is
// no such file.
std::optional<bool> InstanceIsLocked(const std::string& run_dir) {
  for (const auto& entry : fs::directory_iterator("/run/atoll-instances")) {
    auto owner = sys::ReadFileAt(AT_FDCWD, entry.path().string(), 4096);
    if (!owner || *owner != run_dir) continue;
    const UniqueFd file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (!file || ::fcntl(file.get(), F_GETLK, &lock) != 0) return std::nullopt;
    return lock.l_type != F_UNLCK;
  }
  return std::nullopt;
}

// If the lock were free for a moment, another spawner could become the guardian of sandboxes that
// are not its children.
PRIV_TEST(SpawnerLife, AnUpgradeLeavesNoGapForAnother) {
  SpawnerFixture spawner;
  for (int upgrades = 0; upgrades < 3; ++upgrades) {
    ASSERT_EQ(::kill(spawner.pid(), SIGHUP), 0);
    bool lost = false;
    const std::string socket = spawner.run_dir() + "/spawner.sock";
    struct stat before {
    }, now{};
    ASSERT_EQ(::stat(socket.c_str(), &before), 0);
    while (!lost) {
      EXPECT_EQ(InstanceIsLocked(spawner.run_dir()), true);
      // The new program has bound its own socket.
      lost = ::stat(socket.c_str(), &now) == 0 &&
             (now.st_ino != before.st_ino || now.st_ctim.tv_sec != before.st_ctim.tv_sec ||
              now.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
    }
    spawner.AwaitLost();
    spawner.Connect();
  }
  EXPECT_EQ(spawner.Run("echo alive"), "alive\n");
}

// Rewrites a record by hand. Every later version must be able to read a record, independently of
// the form of messages.
void ReplaceRecord(SpawnerFixture& spawner, const SpawnerFixture::Sandbox& sandbox,
                   const std::string& appended) {
  const auto started = sys::ProcessStartTime(static_cast<pid_t>(sandbox.built.pid));
  ASSERT_TRUE(started);
  wire::Writer record;
  record.Text(sandbox.plan.id);
  record.U32(1);  // slot
  record.U32(sandbox.built.pid);
  record.U8(0);  // exited
  record.U8(1);  // code_known
  record.I64(0);
  record.U8(0);  // oom_killed
  record.U32(1);
  record.U32(1);  // layers
  record.U64(*started);
  const std::string path = spawner.run_dir() + "/spawner/records/" + sandbox.plan.id;
  const auto file = sys::Open(path, O_WRONLY | O_TRUNC);
  ASSERT_TRUE(file && sys::WriteAll(file->get(), record.Take() + appended));
}

PRIV_TEST(SpawnerLife, ARecordOfAnotherVersionIsRead) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  // Records from before there were tiers, from before there were readings, from before these had
  // the boot clock's time, and of a later version.
  const std::string tier = wire::EncodeFields(std::string("namespace"));
  const std::string now =
      tier + wire::EncodeFields(std::string("atl0-1")) + wire::EncodeFields(wire::EndReading());
  const std::string unix_only = now.substr(0, now.size() - sizeof(int64_t));
  for (const std::string& appended : {std::string(), tier, unix_only, now + "of a later version"}) {
    spawner.KillProcess();
    ReplaceRecord(spawner, *sandbox, appended);
    spawner.StartProcess();
    spawner.Connect();
    ASSERT_EQ(spawner.hello().sandboxes.size(), 1u);
    for (const bool frozen : {true, false}) {
      std::optional<Status> done;
      spawner.client().Ask(wire::Freeze{sandbox->plan.id, frozen},
                           [&](Status status) { done = std::move(status); });
      ASSERT_TRUE(spawner.loop().RunUntil([&] { return done.has_value(); }));
      EXPECT_TRUE(*done) << done->error().message();
    }
  }
  SpawnerFixture::Claim(*sandbox, "echo alive");
  EXPECT_EQ(SpawnerFixture::ReadToEnd(sandbox->control.get()), "alive\n");
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

// The number is needed to find live sandboxes. A spawner that dies while it starts must not lose
// it.
PRIV_TEST(SpawnerLife, TheNumberOfTheInstanceIsNotWrittenAnew) {
  SpawnerFixture spawner;
  const std::string file = "/run/atoll-instances/" + std::to_string(spawner.hello().instance);
  const auto written = fs::last_write_time(file);
  spawner.KillProcess();
  spawner.StartProcess();
  spawner.Connect();
  EXPECT_EQ(fs::last_write_time(file), written);
}

// The kernel kills a process that is cloned into a killed group before its first step.
PRIV_TEST(SpawnerLife, ASlotThatDiesAtBirthIsAnError) {
  SpawnerFixture spawner;
  std::atomic<bool> done = false;
  std::thread killer([&] {
    while (!done) {
      [[maybe_unused]] const Status killed =
          sys::WriteFileAt(AT_FDCWD, spawner.hello().cgroup_path + "/s1/cgroup.kill", "1");
    }
  });
  for (int i = 0; i < 50; ++i) {
    const Status prepared = spawner.Prepare(1);
    if (prepared) continue;  // the spawner notices its end later
    EXPECT_NE(prepared.error().code(), Code::kDeadlineExceeded) << "no answer";
    if (prepared.error().code() == Code::kDeadlineExceeded) break;
  }
  done = true;
  killer.join();
  EXPECT_EQ(spawner.Run("echo again", 2), "again\n");
}

PRIV_TEST(SpawnerLife, ABuilderThatDiesLeavesNoProcess) {
  SpawnerFixture spawner;
  auto control = sys::UnixPair(SOCK_STREAM);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr address{AF_UNIX, {}};
  ASSERT_EQ(::bind(listener.get(), &address, sizeof address.sa_family), 0);  // no name: autobind
  ASSERT_TRUE(control && ::listen(listener.get(), 8) == 0);
  std::set<pid_t> killed;
  for (int i = 0; i < 100; ++i) {
    // The first attempt may go to the builder that has just died.
    for (int tries = 0; tries < 100 && !spawner.Prepare(1); ++tries) continue;
    const std::vector<pid_t> builders = spawner.Builders();
    for (uint32_t slot : {2u, 3u, 4u}) {
      wire::PrepareSlot asked{slot, SpawnerFixture::DefaultLimits(),
                              std::move(*launch::Copy(control->a.get())),
                              std::move(*launch::Copy(listener.get()))};
      spawner.client().Ask(std::move(asked), [](const Result<wire::PreparedSlot>&) {});
    }
    // Each round kills the builder at another moment of its work.
    const int64_t moment = SystemClock().BootMicros() + i * 20;
    while (SystemClock().BootMicros() < moment) continue;
    for (pid_t builder : builders) ::kill(builder, SIGKILL);
    killed.insert(builders.begin(), builders.end());
    spawner.Connect();  // the stock is empty again
  }
  EXPECT_GT(killed.size(), 80u);
  for (int tries = 0; tries < 100 && !spawner.Prepare(1); ++tries) continue;
  EXPECT_EQ(spawner.Builders().size(), 1u);
}

// The next builder is a fork of a spawner with a connection, and must not keep that connection
// open.
PRIV_TEST(SpawnerLife, ANewBuilderHoldsNoConnection) {
  SpawnerFixture spawner;
  for (pid_t builder : spawner.Builders()) ::kill(builder, SIGKILL);
  for (int tries = 0; tries < 100 && !spawner.Prepare(1); ++tries) continue;
  ASSERT_EQ(spawner.Builders().size(), 1u);
  const auto sockets = [](pid_t pid) {
    std::set<std::string> links;
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
      const std::string link = fs::read_symlink(entry.path(), error);
      if (link.starts_with("socket:")) links.insert(link);
    }
    return links;
  };
  const std::set<std::string> own = sockets(spawner.pid());
  for (const std::string& link : sockets(spawner.Builders()[0])) EXPECT_EQ(own.count(link), 0u);
}

// A sandbox in which the first process of an isolated session is frozen from its birth, because its
// group is frozen. The process that cloned it is stuck with it.
struct StuckSession {
  SpawnerFixture::Sandbox sandbox;
  std::string run;  // directory of the group
  UniqueFd control, connections;
  std::optional<Status> made;

  StuckSession(SpawnerFixture& spawner, uint32_t slot)
      : sandbox(std::move(*spawner.Build(slot))),
        run(spawner.hello().cgroup_path + "/s" + std::to_string(slot) + "/run") {
    Stand(true);
    Make(spawner, 1, [this](const Status& status) { made = status; });
    EXPECT_TRUE(spawner.loop().RunUntil([this] {
      const auto events = sys::ReadFileAt(AT_FDCWD, run + "/x1/cgroup.events", 256);
      return events && events->find("populated 1") != std::string::npos;
    }));
  }

  void Stand(bool still) const {
    EXPECT_TRUE(sys::WriteFileAt(AT_FDCWD, run + "/cgroup.freeze", still ? "1" : "0"));
  }

  void Make(SpawnerFixture& spawner, uint32_t number, std::function<void(const Status&)> done) {
    auto first = sys::UnixPair(SOCK_STREAM), second = sys::UnixPair(SOCK_STREAM);
    ASSERT_TRUE(first && second);
    // A user namespace of its own requires a change of ids.
    wire::MakeSession message{.id = sandbox.plan.id, .mapped = true, .user = {}};
    message.spec.number = number;
    control = std::move(first->a);
    connections = std::move(second->a);
    message.control = std::move(first->b);
    message.connections = std::move(second->b);
    spawner.client().Ask(std::move(message), std::move(done));
  }
};

// Waits until the spawner has read all requests of the fixture so far.
void AwaitPing(SpawnerFixture& spawner) {
  bool answered = false;
  spawner.client().Ask(wire::Ping(), [&](const Status&) { answered = true; });
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return answered; }));
}

PRIV_TEST(SpawnerLife, AnUpgradeWaitsForNoSessionThatStandsStill) {
  SpawnerFixture spawner;
  const StuckSession session(spawner, 1);
  ASSERT_EQ(::kill(spawner.pid(), SIGHUP), 0);
  spawner.AwaitLost();
  spawner.Connect();
  EXPECT_EQ(spawner.Run("echo again", 2), "again\n");
  // The session does not start later.
  const auto events = [&] {
    return sys::ReadFileAt(AT_FDCWD, session.run + "/x1/cgroup.events", 256);
  };
  EXPECT_TRUE(
      spawner.loop().RunUntil([&] { return events()->find("populated 0") != std::string::npos; }));
  EXPECT_TRUE(spawner.Workers("atoll-session").empty());
  EXPECT_TRUE(spawner.Destroy(session.sandbox.plan.id));
}

// The other way round, the session's first process would be born frozen.
PRIV_TEST(SpawnerLife, APauseWaitsForASessionThatIsBeingMade) {
  SpawnerFixture spawner;
  StuckSession session(spawner, 1);
  std::optional<Status> paused;
  bool made_first = false;
  spawner.client().Ask(wire::Freeze{session.sandbox.plan.id, true}, [&](const Status& status) {
    paused = status;
    made_first = session.made.has_value();
  });
  AwaitPing(spawner);
  session.Stand(false);
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return paused.has_value(); }));
  EXPECT_TRUE(made_first);
  EXPECT_TRUE(*paused) << paused->error().message();
  EXPECT_TRUE(*session.made) << session.made->error().message();
  std::optional<Status> another;
  session.Make(spawner, 2, [&](const Status& status) { another = status; });
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return another.has_value(); }));
  EXPECT_EQ(another->error().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(spawner.Destroy(session.sandbox.plan.id));
}

// A cgroup of the host's in which the test can freeze processes of ours.
class Freezer {
 public:
  explicit Freezer(const SpawnerFixture& spawner)
      : path_(fs::path(spawner.hello().cgroup_path).parent_path() / "atoll-test-freezer") {
    fs::create_directory(path_);
  }
  ~Freezer() {
    const auto events = sys::ReadFileAt(AT_FDCWD, path_ / "cgroup.events", 256);
    EXPECT_NE(events->find("populated 0"), std::string::npos);
    EXPECT_EQ(::rmdir(path_.c_str()), 0);
  }
  void Take(pid_t pid) const {
    ASSERT_TRUE(sys::WriteFileAt(AT_FDCWD, path_ / "cgroup.procs", std::to_string(pid)));
    ASSERT_TRUE(sys::WriteFileAt(AT_FDCWD, path_ / "cgroup.freeze", "1"));
  }

 private:
  const fs::path path_;
};

// If such a spawner greeted a new daemon, it would end a moment later, and the daemon cannot start
// another.
PRIV_TEST(SpawnerLife, OneThatIsEndingGreetsNobody) {
  SpawnerFixture spawner;
  for (const uint32_t slot : {1u, 2u, 3u, 4u}) ASSERT_TRUE(spawner.Build(slot));
  spawner.client().Ask(wire::Stop(), [](const Status&) {});
  AwaitPing(spawner);
  wire::Greeting greeting;
  const auto next = launch::SpawnerClient::Connect(spawner.run_dir(), &greeting);
  ASSERT_FALSE(next) << greeting.sandboxes.size() << " sandboxes";
  EXPECT_EQ(next.error().code(), Code::kUnavailable) << next.error().message();
  spawner.AwaitEnd();
}

PRIV_TEST(SpawnerLife, ABuilderThatHangsHoldsUpNoUpgrade) {
  SpawnerFixture spawner;
  const Freezer freezer(spawner);
  ASSERT_EQ(spawner.Builders().size(), 1u);
  freezer.Take(spawner.Builders()[0]);
  // More requests than the builder's socket holds.
  auto control = sys::UnixPair(SOCK_STREAM);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr address{AF_UNIX, {}};
  ASSERT_EQ(::bind(listener.get(), &address, sizeof address.sa_family), 0);
  ASSERT_TRUE(control && ::listen(listener.get(), 8) == 0);
  int refused = 0;
  for (uint32_t slot = 1; slot <= 600; ++slot) {
    wire::PrepareSlot asked{slot, SpawnerFixture::DefaultLimits(),
                            std::move(*launch::Copy(control->a.get())),
                            std::move(*launch::Copy(listener.get()))};
    spawner.client().Ask(std::move(asked), [&](const Result<wire::PreparedSlot>& prepared) {
      refused += !prepared && prepared.error().message().find("too many") != std::string::npos;
    });
  }
  AwaitPing(spawner);
  EXPECT_GT(refused, 0);
  ASSERT_EQ(::kill(spawner.pid(), SIGHUP), 0);
  spawner.AwaitLost();
  spawner.Connect();
  EXPECT_EQ(spawner.Run("echo again", 2), "again\n");
}

// Returns the children by name: the name of their program, or of their fork.
std::multimap<std::string, pid_t> ChildrenOf(pid_t parent) {
  std::multimap<std::string, pid_t> children;
  const std::string pid = std::to_string(parent);
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/" + pid + "/task/" + pid + "/children", 4096);
  std::istringstream numbers(text.value_or(""));
  for (pid_t child; numbers >> child;) {
    const std::string proc = "/proc/" + std::to_string(child);
    const std::string line = sys::ReadFileAt(AT_FDCWD, proc + "/cmdline", 4096).value_or("");
    std::string name = line.substr(0, line.find('\0'));
    if (name.find("atoll-spawner") != std::string::npos) {
      name = sys::ReadFileAt(AT_FDCWD, proc + "/comm", 64).value_or("\n");
      name.pop_back();
    }
    children.emplace(name, child);
  }
  return children;
}

// No worker of a killed spawner goes on beside the next spawner. Two workers are hard: one cannot
// see that its pipes have closed, and one has changed its ids, which makes the kernel forget its
// parent-death signal.
PRIV_TEST(SpawnerLife, NoWorkerOutlivesAKilledSpawner) {
  SpawnerFixture spawner;
  const StuckSession session(spawner, 1);
  // A diff that nobody reads keeps its unpacker blocked.
  const fs::path file = spawner.data_dir() + "/store/fs/uppers/s1/upper/file";
  ASSERT_TRUE(sys::Open(file, O_WRONLY | O_CREAT, 0644));
  Own(file);
  sys::Pipe pipe = std::move(*sys::MakePipe());
  ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  const std::string filling(1 << 16, 'x');
  while (::write(pipe.write.get(), filling.data(), filling.size()) > 0) continue;
  ::fcntl(pipe.write.get(), F_SETFL, 0);
  spawner.client().Ask(wire::DiffUpper{session.sandbox.plan.id, session.sandbox.plan.layers, false,
                                       std::move(pipe.write)},
                       [](const Result<wire::Unpacked>&) {});
  // Once the process has executed atoll-unpack, it has changed all its ids.
  ASSERT_TRUE(spawner.loop().RunUntil([&] {
    const auto children = ChildrenOf(spawner.pid());
    const auto unpack = children.find("atoll-unpack");
    return unpack != children.end() &&
           fs::read_symlink("/proc/" + std::to_string(unpack->second) + "/exe").filename() ==
               "atoll-unpack";
  }));
  std::map<std::string, std::vector<UniqueFd>> workers;
  ASSERT_EQ(::kill(spawner.pid(), SIGSTOP), 0);
  for (const auto& [name, pid] : ChildrenOf(spawner.pid())) {
    if (pid == static_cast<pid_t>(session.sandbox.built.pid)) continue;
    auto pidfd = sys::PidfdOpen(pid);
    ASSERT_TRUE(pidfd);
    EXPECT_EQ(::kill(pid, SIGSTOP), 0);
    workers[name].push_back(std::move(*pidfd));
  }
  for (const char* name : {"atoll-session", "atoll-slots", "atoll-janitor", "atoll-unpack"}) {
    EXPECT_EQ(workers[name].size(), 1u) << name;
  }
  EXPECT_EQ(workers.size(), 4u);
  spawner.KillProcess();
  for (const auto& [name, pidfds] : workers) {
    for (const UniqueFd& pidfd : pidfds) {
      pollfd ended{pidfd.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&ended, 1, 10'000), 1) << name;
    }
  }
  spawner.StartProcess();
  spawner.Connect();
  EXPECT_TRUE(spawner.Destroy(session.sandbox.plan.id));
}

}  // namespace
}  // namespace atl::priv
