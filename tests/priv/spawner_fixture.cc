#include "tests/priv/spawner_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/base/clock.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/wire/start.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

std::string FromEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value) ADD_FAILURE() << name << " is not set: run by meson test";
  return value ? value : "";
}

// Makes a root file system of one static program.
void MakeLayer(const std::string& data_dir) {
  const fs::path layer = data_dir + "/store/fs/layers/1";
  fs::create_directories(layer / "bin");
  fs::copy_file("/bin/busybox", layer / "bin/busybox");
  fs::create_symlink("busybox", layer / "bin/sh");
  fs::copy_file(FromEnvironment("ATOLL_ATTACK_PROBE"), layer / "bin/attack");
  // A set-user-ID file of root, which an image may contain.
  fs::create_directory(layer / "suid");
  fs::copy_file("/bin/busybox", layer / "suid/busybox");
  for (const auto& entry : fs::recursive_directory_iterator(layer)) Own(entry.path());
  Own(layer);
  // Sets the bit after the change of owner, which clears it.
  fs::permissions(layer / "suid/busybox", fs::perms(04755));
}

Result<UniqueFd> Listener() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // no name: autobind
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      ::listen(socket.get(), 8) != 0) {
    return FailSys("listen");
  }
  return socket;
}

}  // namespace

void Own(const fs::path& path) {
  if (::lchown(path.c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase) != 0) {
    ADD_FAILURE() << "lchown " << path;
  }
}

SpawnerFixture::SpawnerFixture(const std::string& execd_variable, const Furnish& furnish,
                               std::vector<std::string> flags)
    : execd_(FromEnvironment(execd_variable)), flags_(std::move(flags)) {
  fs::create_directories(data_dir());
  if (furnish) furniture_ = furnish(data_dir());
  fs::create_directories(run_dir());
  StartProcess();
  MakeLayer(data_dir());
  Connect();
}

void SpawnerFixture::StartProcess() {
  auto ready = sys::MakePipe();
  ASSERT_TRUE(ready);
  pid_ = ::fork();
  if (pid_ == 0) {
    const int fd = ::fcntl(ready->write.get(), F_DUPFD, 3);
    const std::string spawner = FromEnvironment("ATOLL_SPAWNER");
    std::vector<std::string> arguments = {"atoll-spawner",
                                          "--data-dir",
                                          data_dir(),
                                          "--run-dir",
                                          run_dir(),
                                          "--user",
                                          "nobody",
                                          "--execd",
                                          execd_,
                                          "--unpack",
                                          FromEnvironment("ATOLL_UNPACK"),
                                          "--ready-fd",
                                          std::to_string(fd)};
    arguments.insert(arguments.end(), flags_.begin(), flags_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(spawner.c_str(), argv.data());
    ::_exit(127);
  }
  ready->write.reset();
  char byte;
  ASSERT_EQ(::read(ready->read.get(), &byte, 1), 1) << "the spawner did not start";
}

std::vector<pid_t> SpawnerFixture::Workers(const std::string& worker) const {
  std::vector<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    const auto comm = sys::ReadFileAt(AT_FDCWD, "/proc/" + name + "/comm", 64);
    const auto line = sys::ReadFileAt(AT_FDCWD, "/proc/" + name + "/cmdline", 4096);
    if (comm && *comm == worker + "\n" && line && line->find(run_dir()) != std::string::npos) {
      pids.push_back(std::stoi(name));
    }
  }
  return pids;
}

void SpawnerFixture::Connect() {
  auto client = launch::SpawnerClient::Connect(run_dir(), &hello_);
  // Retries, because nobody listens while a spawner executes its new self.
  const int64_t deadline = SystemClock().BootMicros() + 10'000'000;
  while (!client && SystemClock().BootMicros() < deadline) {
    ::sched_yield();
    client = launch::SpawnerClient::Connect(run_dir(), &hello_);
  }
  ASSERT_TRUE(client) << client.error().message();
  client_ = std::move(*client);
  lost_ = false;
  client_->Start(
      loop_, [this](const wire::SandboxRecord& record) { exits.push_back(record); },
      [this] { lost_ = true; });
}

UniqueFd SpawnerFixture::RawConnection(const std::string& run_dir) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run_dir + "/spawner.sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void SpawnerFixture::AwaitLost() {
  ASSERT_TRUE(loop_.RunUntil([this] { return lost_; }));
  lost_ = false;
}

void SpawnerFixture::KillProcess() {
  client_.reset();
  ::kill(pid_, SIGKILL);
  int status;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
}

void SpawnerFixture::AwaitEnd() {
  client_.reset();
  int status = -1;
  ::waitpid(pid_, &status, 0);
  EXPECT_EQ(status, 0) << "exit status of the spawner";
  pid_ = -1;
  RemoveGroup();
}

// Removes the group of a killed spawner. A spawner that was stopped has removed its group and
// released its number. The group of that name may already belong to another spawner, in which case
// it may still be empty, so the owner must be checked.
void SpawnerFixture::RemoveGroup() const {
  const auto owner =
      sys::ReadFileAt(AT_FDCWD, "/run/atoll-instances/" + std::to_string(hello_.instance), 4096);
  if (owner && *owner == run_dir()) ::rmdir(hello_.cgroup_path.c_str());
}

SpawnerFixture::~SpawnerFixture() {
  if (pid_ < 0) return;
  if (!client_) Connect();
  bool stopped = false;
  client_->Ask(wire::Stop(), [&](const Status&) { stopped = true; });
  EXPECT_TRUE(loop_.RunUntil([&] { return stopped; }));
  int status = -1;
  ::waitpid(pid_, &status, 0);
  EXPECT_EQ(status, 0) << "exit status of the spawner";
  RemoveGroup();
}

cgroup::Limits SpawnerFixture::DefaultLimits() {
  cgroup::Limits limits = cgroup::DefaultLimits();
  limits.disk_bytes = 0;  // most stores have no quotas
  return limits;
}

Status SpawnerFixture::Prepare(uint32_t slot, const cgroup::Limits& limits) {
  const int64_t deadline = SystemClock().BootMicros() + 20'000'000;
  for (;;) {
    Status prepared = TryPrepare(slot, limits);
    if (prepared || prepared.error().message().find("still being deleted") == std::string::npos ||
        SystemClock().BootMicros() > deadline) {
      return prepared;
    }
    ::sched_yield();
  }
}

Status SpawnerFixture::TryPrepare(uint32_t slot, const cgroup::Limits& limits) {
  return TryPrepare(slot, limits, std::string(wire::kNamespaceTier));
}

Status SpawnerFixture::TryPrepare(uint32_t slot, const std::string& tier) {
  return TryPrepare(slot, DefaultLimits(), tier);
}

Status SpawnerFixture::TryPrepare(uint32_t slot, const cgroup::Limits& limits,
                                  const std::string& tier) {
  ATOLL_ASSIGN(sys::SocketPair control, sys::UnixPair(SOCK_STREAM));
  ATOLL_ASSIGN(const UniqueFd listener, Listener());
  ATOLL_TRY(Prepare(slot, limits, control.b.get(), listener.get(), tier));
  controls_[slot] = std::move(control.a);
  return {};
}

Status SpawnerFixture::BeginPrepare(uint32_t slot) {
  ATOLL_ASSIGN(sys::SocketPair control, sys::UnixPair(SOCK_STREAM));
  ATOLL_ASSIGN(UniqueFd listener, Listener());
  client_->Ask(wire::PrepareSlot{slot, DefaultLimits(), std::move(control.b), std::move(listener)},
               [](const Result<wire::PreparedSlot>&) {});
  // The spawner reads requests in order, so it has read the earlier ones if it answers this one.
  bool read = false;
  client_->Ask(wire::Ping(), [&](const Status&) { read = true; });
  if (!loop_.RunUntil([&] { return read; })) return Fail(Code::kDeadlineExceeded, "no answer");
  return {};
}

Status SpawnerFixture::Prepare(uint32_t slot, const cgroup::Limits& limits, int control,
                               int listener, const std::string& tier) {
  Status result = Fail(Code::kDeadlineExceeded, "no answer");
  bool answered = false;
  ATOLL_ASSIGN(UniqueFd execd_control, launch::Copy(control));
  ATOLL_ASSIGN(UniqueFd execd_listener, launch::Copy(listener));
  client_->Ask(
      wire::PrepareSlot{slot, limits, std::move(execd_control), std::move(execd_listener), tier},
      [&](Result<wire::PreparedSlot> prepared) {
        answered = true;
        result = prepared ? Status() : Status(Fail(std::move(prepared).error()));
      });
  loop_.RunUntil([&] { return answered; });
  return result;
}

wire::Plan SpawnerFixture::PlanFor(uint32_t slot) {
  wire::Plan plan;
  plan.id = NewSandboxId();
  plan.slot = slot;
  plan.layers = {1};
  plan.hostname = "box";
  plan.hosts = "127.0.0.1 localhost\n";
  plan.resolv_conf = "nameserver 10.200.255.254\n";
  plan.limits = DefaultLimits();
  return plan;
}

Result<SpawnerFixture::Sandbox> SpawnerFixture::Build(uint32_t slot) {
  ATOLL_TRY(Prepare(slot));
  return Build(PlanFor(slot));
}

Result<SpawnerFixture::Sandbox> SpawnerFixture::Build(const wire::Plan& plan) {
  Result<wire::Built> built = Fail(Code::kDeadlineExceeded, "no answer");
  bool answered = false;
  client_->Ask(wire::Build{plan}, [&](Result<wire::Built> answer) {
    answered = true;
    built = std::move(answer);
  });
  loop_.RunUntil([&] { return answered; });
  if (!built) return Fail(std::move(built).error());
  return Sandbox{plan, std::move(controls_[plan.slot]), *built};
}

Status SpawnerFixture::Destroy(const std::string& id) {
  auto destroyed = DestroyAndRead(id);
  return destroyed ? Status() : Fail(std::move(destroyed).error());
}

Result<wire::EndReading> SpawnerFixture::DestroyAndRead(const std::string& id, bool keep_reading) {
  Result<wire::EndReading> reading = Fail(Code::kDeadlineExceeded, "no answer");
  bool answered = false;
  client_->Ask(wire::Destroy{id, keep_reading}, [&](Result<wire::Destroyed> destroyed) {
    answered = true;
    if (destroyed) {
      reading = destroyed->reading;
    } else {
      reading = Fail(std::move(destroyed).error());
    }
  });
  loop_.RunUntil([&] { return answered; });
  return reading;
}

Result<std::vector<wire::SandboxEnd>> SpawnerFixture::Settle(const std::vector<std::string>& ids) {
  Result<std::vector<wire::SandboxEnd>> left = Fail(Code::kDeadlineExceeded, "no answer");
  bool answered = false;
  client_->Ask(wire::SettleEnds{.ids = ids, .list = true}, [&](Result<wire::Ends> ends) {
    answered = true;
    if (ends) left = std::move(ends->ends);
  });
  loop_.RunUntil([&] { return answered; });
  return left;
}

void SpawnerFixture::Claim(const Sandbox& sandbox, const std::string& script) {
  wire::StartMessage start;
  start.argv = {"/bin/busybox", "sh", "-c", script};
  start.env = {"PATH=/bin"};
  ASSERT_TRUE(sys::WriteAll(sandbox.control.get(), wire::Frame(start.Encode())));
}

std::string SpawnerFixture::ReadToEnd(int fd) {
  auto text = sys::ReadAll(fd, 1 << 20);
  return text ? *text : "(" + text.error().message() + ")";
}

std::string SpawnerFixture::Run(const std::string& script, uint32_t slot) {
  auto sandbox = Build(slot);
  if (!sandbox) return "(" + sandbox.error().message() + ")";
  Claim(*sandbox, script);
  const std::string output = ReadToEnd(sandbox->control.get());
  const Status gone = Destroy(sandbox->plan.id);
  EXPECT_TRUE(gone) << gone.error().message();
  return output;
}

}  // namespace atl::priv
