#include "runtime/guest/groups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/namespaces.h"

namespace atl::guest {
namespace {

constexpr char kHierarchy[] = "/groups";  // a directory in the initramfs
constexpr char kTop[] = "atoll";

}  // namespace

Result<Groups> MakeGroups(uint64_t pids) {
  if (::mkdir(kHierarchy, 0755) != 0) return FailSys(std::string("mkdir ") + kHierarchy);
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(kHierarchy, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd mount, spawner::NewMount("cgroup2", {}, spawner::kNoSuidDevExec));
  ATOLL_TRY(spawner::Attach(mount.get(), target.get(), kHierarchy));
  const cgroup::Host host{
      .v2 = true, .unified = kHierarchy, .v1 = {}, .limits = {"memory", "pids", "cpu"}};
  ATOLL_ASSIGN(cgroup::Tree tree, cgroup::Tree::Create(host, kHierarchy, kTop, ""));
  ATOLL_TRY(tree.CreateGroup(kSandboxGroup));
  ATOLL_ASSIGN(const UniqueFd group, tree.OpenDir(kSandboxGroup, ""));
  // Before the group has controllers for its children, beside which it holds no process.
  ATOLL_ASSIGN(UniqueFd name_space, spawner::MakeCgroupNamespace(group.get(), {}));
  ATOLL_TRY(tree.DelegateGroup(kSandboxGroup, 0));
  cgroup::Limits limits;
  limits.pids = pids;
  ATOLL_TRY(tree.SetLimits(kSandboxGroup, {}, limits));
  ATOLL_ASSIGN(UniqueFd execd, tree.OpenDir(kSandboxGroup, "execd"));
  ATOLL_ASSIGN(UniqueFd commands, tree.OpenDir(kSandboxGroup, "run"));
  return Groups{std::move(tree), std::move(execd), std::move(commands), std::move(name_space)};
}

}  // namespace atl::guest
