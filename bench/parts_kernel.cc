// Measures the kernel's work for a sandbox through the spawner's own code: cgroups and the seccomp
// filter. Mounts are steps of the group "spawner".
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>

#include "bench/own_thread.h"
#include "bench/parts.h"
#include "bench/process.h"
#include "cgroup/meters.h"
#include "cgroup/tree.h"
#include "runtime/spawner/rules/seccomp.h"

namespace atl::bench {
namespace {

constexpr uid_t kInside = 0x78000000;
const cgroup::Limits kDefaults{.memory_bytes = 512ULL << 20, .pids = 512, .cpu_millis = 1000};
const cgroup::Limits kHalf{.memory_bytes = 256ULL << 20, .pids = 256, .cpu_millis = 500};

// A base group of our own, with the group of one sandbox in it.
struct Groups {
  cgroup::Tree tree;
  std::string base;
  bool half = false;

  explicit Groups(cgroup::Tree made, std::string name)
      : tree(std::move(made)), base(std::move(name)) {}
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups() {
    (void)tree.RemoveGroup("s1");
    (void)cgroup::Tree::Remove(tree.host(), tree.host().unified, base);
  }

  static Result<std::shared_ptr<Groups>> Make() {
    ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
    const std::string base = "atoll-bench-" + std::to_string(::getpid());
    ATOLL_ASSIGN(cgroup::Tree tree, cgroup::Tree::Create(host, host.unified, base, ""));
    auto groups = std::make_shared<Groups>(std::move(tree), base);
    ATOLL_TRY(groups->tree.CreateGroup("s1"));
    ATOLL_TRY(groups->tree.DelegateGroup("s1", kInside));
    ATOLL_TRY(groups->tree.SetLimits("s1", {}, kDefaults));
    return groups;
  }
  Status LiveAndDie() const {
    ATOLL_TRY(tree.CreateGroup("s2"));
    ATOLL_TRY(tree.DelegateGroup("s2", kInside));
    return tree.RemoveGroup("s2");
  }
  Status Change() {
    half = !half;
    return tree.SetLimits("s1", half ? kDefaults : kHalf, half ? kHalf : kDefaults);
  }
};

void AddGroups(Phases* phases) {
  const auto groups = std::make_shared<std::shared_ptr<Groups>>();
  phases->push_back({.run = [=](Take&) -> Status {
    ATOLL_ASSIGN(*groups, Groups::Make());
    return {};
  }});
  phases->push_back(Part("cgroup: made and removed", "of one sandbox, in each hierarchy", 200, 1,
                         [=] { return (*groups)->LiveAndDie(); }));
  phases->push_back(Part("cgroup: other limits", "memory, pids and processor", 200, 1,
                         [=] { return (*groups)->Change(); }));
  phases->push_back(Part("cgroup: meters read", "of one sandbox", 200, 10, [=]() -> Status {
    const cgroup::Tree& tree = (*groups)->tree;
    ATOLL_ASSIGN(const cgroup::Meters meters, cgroup::ReadMeters(tree.host(), tree.path(), "s1"));
    return meters.cpu_micros == 0 ? Status() : Fail(Code::kInternal, "a group without processes");
  }));
  phases->push_back({.run = [=](Take&) -> Status {
    groups->reset();
    return {};
  }});
}

void AddFilter(Phases* phases) {
  phases->push_back(Part("seccomp: compiled", "once, at the spawner's start", 50, 10, [] {
    const bool made = !spawner::BuildSandboxFilter().empty();
    return made ? Status() : Fail(Code::kInternal, "an empty filter");
  }));
  // Each sample runs on a new thread, because a thread never loses the filters that it has loaded.
  const std::string name = "seccomp: loaded";
  phases->push_back({.series = {{name, "for one sandbox", "µs", {}}},
                     .samples = 200,
                     .warm_up = 5,
                     .run = [=, filter = spawner::BuildSandboxFilter()](Take& take) {
                       return OwnThread().Do([&]() -> Status {
                         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                         const int64_t start = NowMicros();
                         ATOLL_TRY(spawner::LoadFilter(filter));
                         take.Add(name, static_cast<double>(MicrosSince(start)));
                         return {};
                       });
                     }});
}

// Measures the start of a process before any code of ours runs in it.
void AddProcesses(Phases* phases) {
  const auto spawn = [](const std::vector<std::string>& argv) -> Status {
    ATOLL_ASSIGN(const pid_t pid, Spawn(argv, -1, -1));
    return Await(pid, argv[0]);
  };
  phases->push_back(Part("a static program", "busybox true: spawn → reaped", 200, 1, [=] {
    return spawn({"busybox", "true"});
  }));
  phases->push_back(Part("a dynamic program", "/bin/true: spawn → reaped", 200, 1,
                         [=] { return spawn({"/bin/true"}); }));
}

}  // namespace

void AddKernelParts(Phases* phases) {
  AddProcesses(phases);
  AddGroups(phases);
  AddFilter(phases);
}

Phases PartsPhases(const Setting&) {
  Phases phases;
  AddAuditParts(&phases);
  AddWireParts(&phases);
  AddHttpParts(&phases);
  AddKernelParts(&phases);
  AddNetworkParts(&phases);
  return phases;
}

}  // namespace atl::bench
