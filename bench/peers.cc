#include "bench/peers.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cgroup/host.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileLimit = 1 << 20;
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
  peers->thread_ = std::thread([raw = peers.get()] { raw->Serve(); });
  ATOLL_TRY(peers->InThread([raw = peers.get()] { return raw->Prepare(); }));
  return peers;
}

Peers::~Peers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Peers::Serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || job_; });
    if (stop_) return;
    job_();
    job_ = nullptr;
    changed_.notify_all();
  }
}

Status Peers::InThread(const std::function<Status()>& job) {
  Status result;
  std::unique_lock lock(mutex_);
  job_ = [&] { result = job(); };
  changed_.notify_all();
  changed_.wait(lock, [this] { return !job_; });
  return result;
}

Status Peers::Prepare() {
  std::error_code error;
  fs::create_directories(directory_ + "/state", error);
  if (error) return Fail(SysError("mkdir " + directory_, error.value()));
  ATOLL_TRY(EnterOwnMounts(directory_ + "/state"));
  ATOLL_TRY(MakeRoot());
  for (const char* program : {"crun", "runc", "bwrap"}) {
    const std::string name = program;
    Peer peer{name == "bwrap" ? "bwrap --unshare-all" : name + " run", ""};
    Status works = name == "bwrap" ? Status() : MakeBundle(name);
    if (works) {
      auto run = RunHere(name);
      if (!run) works = Fail(std::move(run).error());
    }
    if (!works) {
      auto said = sys::ReadFileAt(AT_FDCWD, directory_ + "/stderr", kFileLimit);
      peer.missing = works.error().message() + (said && !said->empty() ? ": " + *said : "");
      while (peer.missing.ends_with('\n')) peer.missing.pop_back();
    }
    peers_.push_back(std::move(peer));
  }
  return {};
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

// The runtime's own default configuration, with our command and root.
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

std::vector<std::string> Peers::CommandOf(const std::string& program) {
  std::vector<std::string> argv;
  if (program == "bwrap") {
    argv = {"bwrap", "--unshare-all", "--bind", directory_ + "/root", "/", "--proc", "/proc",
            "--dev", "/dev",          "--"};
    argv.insert(argv.end(), kCommand.begin(), kCommand.end());
    return argv;
  }
  return {program,
          "--root",
          directory_ + "/state/" + program,
          "run",
          "--bundle",
          directory_ + "/" + program,
          "atoll-bench-" + std::to_string(::getpid()) + "-" + std::to_string(++runs_)};
}

Result<RunMicros> Peers::RunHere(const std::string& program) {
  ATOLL_ASSIGN(const UniqueFd err,
               sys::Open(directory_ + "/stderr", O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return RunTimed(CommandOf(program), err.get());
}

Result<RunMicros> Peers::Run(size_t peer) {
  Result<RunMicros> micros = RunMicros{};
  const std::string& name = peers_[peer].name;
  ATOLL_TRY(InThread([&]() -> Status {
    micros = RunHere(name.substr(0, name.find(' ')));
    return {};
  }));
  return micros;
}

}  // namespace atl::bench
