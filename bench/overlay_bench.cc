// A sandbox's root file system: the id-mapped mount of the store, and an overlay of it with an
// upper, mounted as builds do. In a mount namespace of its own, on /var/tmp's file system. As root.
#include <benchmark/benchmark.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "bench/must.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/config.h"
#include "runtime/spawner/mounts.h"
#include "runtime/spawner/namespaces.h"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kInside = 0x78000000;
constexpr int kMaxLayers = 12;

// store/: layers/<n>, upper, work, all of the store's owner; store-mapped and root: mount points.
class Store {
 public:
  Store() {
    char name[] = "/var/tmp/atoll-bench.XXXXXX";
    if (!::mkdtemp(name)) Must(Status(FailSys("mkdtemp /var/tmp")));
    top_ = name;
    if (::chmod(name, 0755) != 0) Must(Status(FailSys("chmod " + top_)));
    MakeDir(top_ + "/store");
    MakeDir(top_ + "/store/layers");
    for (int layer = 1; layer <= kMaxLayers; ++layer) {
      const std::string path = top_ + "/store/layers/" + std::to_string(layer);
      MakeDir(path);
      MakeDir(path + "/etc");
    }
    for (const char* directory : {"/store/upper", "/store/work", "/mapped", "/root"}) {
      MakeDir(top_ + directory);
    }
    if (::unshare(CLONE_NEWNS) != 0) Must(Status(FailSys("unshare")));
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      Must(Status(FailSys("make mounts private")));
    }
    tree_ = Must(sys::Open(top_ + "/store", O_PATH | O_DIRECTORY));
    users_ = Must(spawner::MakeUserNamespace({spawner::kStoreIdBase, kInside}));
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() {
    tree_.reset();
    std::error_code error;
    fs::remove_all(top_, error);
  }

  UniqueFd Map() const {
    UniqueFd mount = Must(spawner::CloneMount(tree_.get(), "", false));
    Must(spawner::SetMountAttributes(mount.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                     users_.get(), false));
    return mount;
  }
  const std::string& top() const { return top_; }

 private:
  static void MakeDir(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) != 0) Must(Status(FailSys("mkdir " + path)));
    if (::chown(path.c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase) != 0) {
      Must(Status(FailSys("chown " + path)));
    }
  }

  std::string top_;
  UniqueFd tree_, users_;
};

std::unique_ptr<Store>& TheStore() {
  static auto store = std::make_unique<Store>();
  return store;
}

void MapStore(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TheStore()->Map());
}
BENCHMARK(MapStore)->Iterations(500)->Unit(benchmark::kMicrosecond);

void MountOverlay(benchmark::State& state) {
  const Store& store = *TheStore();
  // Attached: 6.1 has no overlay over detached mounts.
  const UniqueFd mapped = store.Map();
  const std::string target = store.top() + "/mapped";
  {
    const UniqueFd point = Must(sys::Open(target, O_PATH | O_DIRECTORY));
    Must(spawner::Attach(mapped.get(), point.get(), "store"));
  }
  if (::chdir(target.c_str()) != 0) Must(Status(FailSys("chdir " + target)));
  std::string options = "userxattr,volatile,xino=off,index=off,upperdir=upper,workdir=work";
  for (int64_t layer = 1; layer <= state.range(0); ++layer) {
    options.append(layer == 1 ? ",lowerdir=layers/" : ":layers/").append(std::to_string(layer));
  }
  const std::string root = store.top() + "/root";
  // An upper on an id-mapped mount is only writable for somebody whom the map knows; as in builds,
  // capabilities stay.
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) {
    Must(Status(FailSys("PR_SET_SECUREBITS")));
  }
  ::setfsuid(kInside);
  ::setfsgid(kInside);
  for (auto _ : state) {
    if (::mount("overlay", root.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
      Must(Status(FailSys("mount overlay " + options)));
    }
    state.PauseTiming();
    if (::umount2(root.c_str(), 0) != 0) Must(Status(FailSys("umount " + root)));
    // A volatile overlay leaves a mark that forbids the next one.
    std::error_code error;
    fs::remove_all("work/work", error);
    state.ResumeTiming();
  }
  ::setfsuid(0);
  ::setfsgid(0);
  if (::chdir("/") != 0 || ::umount2(target.c_str(), MNT_DETACH) != 0) {
    Must(Status(FailSys("umount " + target)));
  }
}
BENCHMARK(MountOverlay)
    ->ArgName("layers")
    ->Arg(1)
    ->Arg(kMaxLayers)
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  atl::bench::TheStore().reset();
}
