#include "bench/peers.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cgroup/host.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileLimit = 1 << 20;
constexpr char kDockerImage[] = "atoll-bench-peer";
const std::vector<std::string> kCommand = {"/bin/sh", "-c", "echo hi"};

Status EnterOwnMounts(const std::string& state) {
  if (::unshare(CLONE_NEWNS) != 0) return FailSys("unshare mount namespace");
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("make mounts private");
  }
  if (::mount("none", state.c_str(), "tmpfs", 0, nullptr) != 0) return FailSys("mount " + state);
  ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
  if (!host.v2 && ::umount2(host.unified.c_str(), MNT_DETACH) != 0) {
    return FailSys("umount " + host.unified);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Peers>> Peers::Open(const std::string& directory) {
  std::unique_ptr<Peers> peers(new Peers(directory));
  ATOLL_TRY(peers->thread_.Do([raw = peers.get()] { return raw->Prepare(); }));
  return peers;
}

Peers::~Peers() {
  if (missing_.empty() || !missing_["docker"].empty()) return;
  const auto pid = Spawn({"docker", "image", "rm", "--force", kDockerImage}, -1, -1);
  if (!pid || !Await(*pid, "docker image rm")) {
    std::fprintf(stderr, "bench: docker keeps the image %s\n", kDockerImage);
  }
}

Status Peers::Prepare() {
  std::error_code error;
  fs::create_directories(directory_ + "/state", error);
  if (error) return Fail(SysError("mkdir " + directory_, error.value()));
  ATOLL_TRY(EnterOwnMounts(directory_ + "/state"));
  ATOLL_TRY(MakeRoot());
  for (const std::string& peer : kPeers) {
    const Status works = Try(peer);
    std::string& missing = missing_[peer];
    if (works) continue;
    auto said = sys::ReadFileAt(AT_FDCWD, directory_ + "/stderr", kFileLimit);
    missing = works.error().message() + (said && !said->empty() ? ": " + *said : "");
    while (missing.ends_with('\n')) missing.pop_back();
  }
  return {};
}

Status Peers::Try(const std::string& peer) {
  if (peer == "crun" || peer == "runc") ATOLL_TRY(MakeBundle(peer));
  if (peer == "docker") {
    ATOLL_ASSIGN(const UniqueFd err,
                 sys::Open(directory_ + "/stderr", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    const std::string archive = directory_ + "/root.tar";
    ATOLL_ASSIGN(const pid_t tar,
                 Spawn({"tar", "-C", directory_ + "/root", "-cf", archive, "."}, -1, err.get()));
    ATOLL_TRY(Await(tar, "tar"));
    ATOLL_ASSIGN(const pid_t load,
                 Spawn({"docker", "import", archive, kDockerImage}, -1, err.get()));
    ATOLL_TRY(Await(load, "docker import"));
  }
  auto run = RunHere(peer);
  return run ? Status() : Fail(std::move(run).error());
}

Status Peers::MakeRoot() const {
  const fs::path root = directory_ + "/root";
  std::error_code error;
  for (const char* name : {"bin", "proc", "sys", "dev", "tmp", "etc"}) {
    fs::create_directories(root / name, error);
    if (error) return Fail(SysError("mkdir in " + root.string(), error.value()));
  }
  fs::copy_file("/bin/busybox", root / "bin/busybox", error);
  if (error) return Fail(SysError("copy /bin/busybox", error.value()));
  fs::create_symlink("busybox", root / "bin/sh", error);
  if (error) return Fail(SysError("symlink sh", error.value()));
  return {};
}

// Takes the runtime's default configuration and puts our command and root into it.
Status Peers::MakeBundle(const std::string& runtime) const {
  const std::string bundle = directory_ + "/" + runtime;
  if (::mkdir(bundle.c_str(), 0755) != 0) return FailSys("mkdir " + bundle);
  ATOLL_ASSIGN(const pid_t pid, Spawn({runtime, "spec", "--bundle", bundle}, -1, -1));
  ATOLL_TRY(Await(pid, runtime + " spec"));
  const std::string path = bundle + "/config.json";
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kFileLimit));
  auto config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) return Fail(Code::kInternal, path + " is not JSON");
  config["process"]["args"] = kCommand;
  config["process"]["terminal"] = false;
  config["root"]["path"] = directory_ + "/root";
  config["root"]["readonly"] = false;
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_WRONLY | O_TRUNC));
  return sys::WriteAll(file.get(), config.dump());
}

std::vector<std::string> Peers::CommandOf(const std::string& peer) {
  const std::string root = directory_ + "/root";
  std::vector<std::string> argv;
  if (peer == "bwrap") {
    argv = {"bwrap",  "--unshare-all", "--bind", root,   "/",
            "--proc", "/proc",         "--dev",  "/dev", "--"};
  } else if (peer == "podman") {
    // podman's default limits may exceed those that this process may set.
    argv = {"podman",           "run",      "--rm",
            "--network",        "none",     "--ulimit",
            "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
            "--rootfs",         root};
  } else if (peer == "docker") {
    argv = {"docker", "run", "--rm", "--network", "none", kDockerImage};
  } else {
    // The command is in the bundle.
    return {peer,
            "--root",
            directory_ + "/state/" + peer,
            "run",
            "--bundle",
            directory_ + "/" + peer,
            "atoll-bench-" + std::to_string(::getpid()) + "-" + std::to_string(++runs_)};
  }
  argv.insert(argv.end(), kCommand.begin(), kCommand.end());
  return argv;
}

Result<RunMicros> Peers::RunHere(const std::string& peer) {
  ATOLL_ASSIGN(const UniqueFd err,
               sys::Open(directory_ + "/stderr", O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return RunTimed(CommandOf(peer), err.get());
}

Result<RunMicros> Peers::Run(const std::string& peer) {
  Result<RunMicros> micros = RunMicros{};
  ATOLL_TRY(thread_.Do([&]() -> Status {
    micros = RunHere(peer);
    return {};
  }));
  return micros;
}

}  // namespace atl::bench
