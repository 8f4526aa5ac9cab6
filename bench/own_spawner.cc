#include "bench/own_spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/clock.h"
#include "bench/process.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/wire/plan.h"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPatienceUs = 10'000'000;
const cgroup::Limits kLimits = [] {
  cgroup::Limits limits = cgroup::DefaultLimits();
  limits.disk_bytes = 0;  // a limit needs a store with quotas
  return limits;
}();

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

Result<std::unique_ptr<OwnSpawner>> OwnSpawner::Start(const std::string& programs,
                                                      uint32_t layers) {
  std::unique_ptr<OwnSpawner> spawner(new OwnSpawner());
  ATOLL_TRY(spawner->Begin(programs, layers));
  return spawner;
}

Status OwnSpawner::Begin(const std::string& programs, uint32_t layers) {
  char name[] = "/var/tmp/atoll-bench.XXXXXX";
  if (!::mkdtemp(name)) return FailSys("mkdtemp /var/tmp");
  top_ = name;
  if (::chmod(name, 0755) != 0) return FailSys("chmod " + top_);
  std::error_code error;
  fs::create_directories(top_ + "/data", error);
  fs::create_directories(top_ + "/run", error);
  ATOLL_ASSIGN(pid_, Spawn({programs + "/atoll-spawner", "--data-dir", top_ + "/data", "--run-dir",
                            top_ + "/run", "--user", "nobody"},
                           2, 2));
  const int64_t deadline = NowMicros() + kPatienceUs;
  wire::Greeting hello;
  auto client = launch::SpawnerClient::Connect(top_ + "/run", &hello);
  while (!client && NowMicros() < deadline && ::waitpid(pid_, nullptr, WNOHANG) == 0) {
    Rest(10);
    client = launch::SpawnerClient::Connect(top_ + "/run", &hello);
  }
  if (!client) return Fail(std::move(client).error());
  client_ = std::move(*client);
  client_->Start(
      loop_, [](const wire::SandboxRecord&) {}, [] {});
  for (uint32_t layer = 1; layer <= layers; ++layer) ATOLL_TRY(MakeLayer(layer));
  return {};
}

OwnSpawner::~OwnSpawner() {
  if (client_) {
    bool stopped = false;
    client_->Ask(wire::Stop(), [&](const Status&) { stopped = true; });
    if (!Await(stopped)) ::kill(pid_, SIGKILL);
  }
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  std::error_code error;
  if (!top_.empty()) fs::remove_all(top_, error);
}

Status OwnSpawner::MakeLayer(uint32_t number) const {
  const fs::path layer = top_ + "/data/store/fs/layers/" + std::to_string(number);
  std::error_code error;
  fs::create_directories(layer / "bin", error);
  fs::copy_file("/bin/busybox", layer / "bin/busybox", error);
  fs::create_symlink("busybox", layer / "bin/sh", error);
  if (error) return Fail(SysError("make " + layer.string(), error.value()));
  for (const fs::path& path : {layer, layer / "bin", layer / "bin/busybox", layer / "bin/sh"}) {
    if (::lchown(path.c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase) != 0) {
      return FailSys("lchown " + path.string());
    }
  }
  return {};
}

Status OwnSpawner::Await(const bool& done) {
  if (loop_.RunUntil([&] { return done; })) return {};
  return Fail(Code::kDeadlineExceeded, "the spawner does not answer");
}

// A slot cannot be prepared until the files of its last sandbox are deleted.
Status OwnSpawner::AwaitTrash(const std::string& name) const {
  const std::string path = top_ + "/data/store/trash/" + name;
  std::error_code error;
  for (int64_t waited_us = 0; waited_us < kPatienceUs * 6; waited_us += 1000) {
    if (name.empty() ? fs::is_empty(path, error) : !fs::exists(path, error)) return {};
    ::poll(nullptr, 0, 1);
  }
  return Fail(Code::kDeadlineExceeded, path + " is still there");
}

Result<std::string> OwnSpawner::MakeVolume(const std::string& name) {
  Status result;
  bool done = false;
  client_->Ask(wire::MakeVolume{name, 0}, [&](Status status) {
    result = std::move(status);
    done = true;
  });
  ATOLL_TRY(Await(done));
  ATOLL_TRY(std::move(result));
  return top_ + "/data/store/volumes/" + name;
}

Status OwnSpawner::RemoveVolume(const std::string& name) {
  Status result;
  bool done = false;
  client_->Ask(wire::RemoveVolume{name}, [&](Status status) {
    result = std::move(status);
    done = true;
  });
  ATOLL_TRY(Await(done));
  ATOLL_TRY(std::move(result));
  return AwaitTrash("");
}

Result<wire::StepMicros> OwnSpawner::Prepare(uint32_t slot) {
  ATOLL_TRY(AwaitTrash("s" + std::to_string(slot)));
  ATOLL_ASSIGN(sys::SocketPair control, sys::UnixPair(SOCK_STREAM));
  ATOLL_ASSIGN(UniqueFd listener, Listener());
  Result<wire::StepMicros> result = wire::StepMicros{};
  bool done = false;
  client_->Ask(wire::PrepareSlot{slot, kLimits, std::move(control.b), std::move(listener)},
               [&](Result<wire::PreparedSlot> prepared) {
                 if (prepared) {
                   result = prepared->micros;
                 } else {
                   result = Fail(std::move(prepared).error());
                 }
                 done = true;
               });
  ATOLL_TRY(Await(done));
  controls_[slot] = std::move(control.a);
  return result;
}

Status OwnSpawner::Drop(uint32_t slot) {
  Status result;
  bool done = false;
  client_->Ask(wire::DropSlot{slot}, [&](Status status) {
    result = std::move(status);
    done = true;
  });
  ATOLL_TRY(Await(done));
  ATOLL_TRY(std::move(result));
  return AwaitTrash("s" + std::to_string(slot));
}

Result<OwnSpawner::Sandbox> OwnSpawner::Build(uint32_t slot, uint32_t layers) {
  wire::Plan plan;
  plan.limits = kLimits;
  plan.id = NewSandboxId();
  plan.slot = slot;
  for (uint32_t layer = layers; layer > 0; --layer) plan.layers.push_back(layer);
  plan.hostname = "bench";
  plan.hosts = "127.0.0.1 localhost\n";
  plan.resolv_conf = "nameserver 10.200.255.254\n";
  Result<wire::Built> built = wire::Built();
  bool done = false;
  client_->Ask(wire::Build{plan}, [&](Result<wire::Built> answer) {
    built = std::move(answer);
    done = true;
  });
  ATOLL_TRY(Await(done));
  if (!built) return Fail(std::move(built).error());
  return Sandbox{plan.id, std::move(controls_[slot]), *built};
}

Status OwnSpawner::Destroy(const Sandbox& sandbox) {
  Status result;
  bool done = false;
  client_->Ask(wire::Destroy{sandbox.id}, [&](const Result<wire::Destroyed>& destroyed) {
    if (!destroyed) result = Fail(destroyed.error());
    done = true;
  });
  ATOLL_TRY(Await(done));
  return result;
}

}  // namespace atl::bench
