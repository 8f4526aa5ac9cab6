#include "cgroup/tree.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <string_view>

#include "cgroup/keyed_number.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

constexpr size_t kFileLimit = 64 << 10;
constexpr int kDir = O_RDONLY | O_DIRECTORY;
// Levels below a sandbox's group: run, session, run, command.
constexpr const char* kMaxDepth = "4";
constexpr const char* kIntercept = "/intercept";

Status MakeDir(int base, const std::string& path) {
  if (::mkdirat(base, path.c_str(), 0755) != 0 && errno != EEXIST) return FailSys("mkdir " + path);
  return {};
}

Status RemoveDir(int base, const std::string& path) {
  if (::unlinkat(base, path.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return FailSys("rmdir cgroup " + path);
  }
  return {};
}

// Removes a group and all groups below it: at most session, run, command. Most groups have none.
Status RemoveGroups(int base, const std::string& path) {
  Status removed = RemoveDir(base, path);
  if (removed || removed.error().error_number() != EBUSY) return removed;
  auto group = sys::OpenAt(base, path, kDir);
  if (!group) {
    return group.error().error_number() == ENOENT ? Status() : Fail(std::move(group).error());
  }
  ATOLL_ASSIGN(const std::vector<std::string> below, sys::ListSubdirectories(group->get()));
  for (const std::string& each : below) ATOLL_TRY(RemoveGroups(group->get(), each));
  return RemoveDir(base, path);
}

// Writes "+memory +pids …" for the wanted controllers that the group has.
Status EnableControllers(int dir, const std::string& path,
                         std::initializer_list<const char*> wanted) {
  ATOLL_ASSIGN(std::string available,
               sys::ReadFileAt(dir, path + "cgroup.controllers", kFileLimit));
  for (char& c : available) {
    if (c == '\n') c = ' ';
  }
  available.insert(0, " ");
  std::string enable;
  for (const char* controller : wanted) {
    if (available.find(" " + std::string(controller) + " ") == std::string::npos) continue;
    enable.append(enable.empty() ? "+" : " +").append(controller);
  }
  if (enable.empty()) return {};
  return sys::WriteFileAt(dir, path + "cgroup.subtree_control", enable);
}

// The attribute is "user.delegate" since systemd 251, "trusted.delegate" before.
bool IsDelegated(int group) {
  char value[8];
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    const ssize_t n = ::fgetxattr(group, name, value, sizeof value);
    if (n == 1 && value[0] == '1') return true;
  }
  return false;
}

// Returns true for controllers for which commands have a v1 group below the sandbox's, so that they
// cannot use up what process 1 needs, nor make it the victim when they run out of memory.
bool HasRunGroup(std::string_view controller) {
  return controller == "memory" || controller == "pids";
}

// Returns `group` with `leaf` if the group has a directory in a v1 hierarchy, otherwise `shared` of
// the sandbox that it is nested in.
std::string PlaceOf(int base, const std::string& group, const std::string& leaf,
                    const std::string& shared) {
  const size_t nested = group.find('/');
  if (nested == std::string::npos || ::faccessat(base, group.c_str(), F_OK, 0) == 0) {
    return group + leaf;
  }
  return group.substr(0, nested) + shared;
}

// Returns false for controllers that limit nothing here. For these, all sandboxes share one group,
// unless they are mounted together with a controller that does limit.
bool OwnGroup(std::string_view controller) {
  return controller != "cpuacct" && controller != "cpuset";
}

// A cpuset group accepts no process before it has CPUs and memory nodes.
Status FillCpuset(int parent, const std::string& group) {
  for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) {
    ATOLL_ASSIGN(const std::string all, sys::ReadFileAt(parent, file + 1, kFileLimit));
    ATOLL_TRY(sys::WriteFileAt(parent, group + file, all));
  }
  return {};
}

// Returns true if the text of /proc/PID/cgroup shows the process in `place` or below it, in the
// hierarchy of a controller. An empty controller means v2 (cgroups(7)).
bool IsAt(std::string_view text, std::string_view controller, std::string_view place) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    bool listed = controller.empty() && controllers.empty();
    while (!listed && !controllers.empty()) {
      const std::string_view one = controllers.substr(0, controllers.find(','));
      controllers.remove_prefix(std::min(one.size() + 1, controllers.size()));
      listed = one == controller;
    }
    if (!listed) continue;
    const std::string_view path = line.substr(second + 1);
    const size_t at = path.find(place);
    if (at == std::string_view::npos || path.ends_with(" (deleted)")) return false;
    const std::string_view below = path.substr(at + place.size());
    return below.empty() || below[0] == '/';
  }
  return false;
}

// Parses the text of /proc/PID/stat. The flags are the seventh field after the name, which ends at
// the last parenthesis (proc(5)).
bool IsExiting(std::string_view stat) {
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of the kernel's sched.h
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return false;
  std::string_view rest = stat.substr(name_end + 1);
  for (int field = 0; field < 6; ++field) {
    const size_t space = rest.find(' ', 1);
    if (space == std::string_view::npos) return false;
    rest.remove_prefix(space);
  }
  const auto flags = LeadingNumber(rest.substr(1));
  return flags && (*flags & kExiting) != 0;
}

// Returns the number of memory groups of the whole host, including dying ones (proc_cgroups(5):
// name, hierarchy, groups).
std::optional<uint64_t> MemoryGroups() {
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/cgroups", kFileLimit);
  if (!text) return std::nullopt;
  constexpr std::string_view kName = "\nmemory\t";
  const size_t line = text->find(kName);
  if (line == std::string::npos) return std::nullopt;
  const size_t hierarchy_end = text->find('\t', line + kName.size());
  if (hierarchy_end == std::string::npos) return std::nullopt;
  return LeadingNumber(std::string_view(*text).substr(hierarchy_end + 1));
}

Result<uint64_t> ReadNumber(int dir, const std::string& path, std::string_view key) {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(dir, path, kFileLimit));
  const auto number = KeyedNumber(text, key);
  if (!number) return Fail(Code::kInternal, path + " has no number for " + std::string(key));
  return *number;
}

}  // namespace

Result<std::string> FindBase(const Host& host, const std::string& delegated) {
  if (delegated.empty() || !host.v2) return host.unified;
  const std::string base = host.unified + delegated;
  auto fd = sys::Open(base, kDir);
  if (fd && IsDelegated(fd->get())) return base;
  return Fail(Code::kFailedPrecondition, base +
                                             " is not a cgroup that systemd has delegated: start "
                                             "its unit (Delegate=yes), or leave the cgroup out");
}

Result<Tree> Tree::Create(const Host& host, const std::string& base, const std::string& name,
                          std::string io_device) {
  Tree tree;
  tree.host_ = host;
  tree.io_device_ = std::move(io_device);
  if (tree.io_device_.empty()) std::erase(tree.host_.limits, "io");

  ATOLL_ASSIGN(const UniqueFd parent, sys::Open(base, kDir));
  if (host.v2) ATOLL_TRY(EnableControllers(parent.get(), "", {"memory", "pids", "cpu", "io"}));
  tree.path_ = base + "/" + name;
  tree.name_ = name;
  ATOLL_TRY(MakeDir(parent.get(), name));
  ATOLL_ASSIGN(tree.unified_, sys::OpenAt(parent.get(), name, kDir));
  if (host.v2) {
    ATOLL_TRY(EnableControllers(tree.unified_.get(), "", {"memory", "pids", "cpu", "io"}));
  }
  for (const auto& [controller, mount_point] : host.v1) {
    ATOLL_ASSIGN(const UniqueFd root, sys::Open(mount_point, kDir));
    ATOLL_TRY(MakeDir(root.get(), name));
    if (controller == "cpuset") ATOLL_TRY(FillCpuset(root.get(), name));
    ATOLL_ASSIGN(tree.v1_[controller], sys::OpenAt(root.get(), name, kDir));
  }
  // v1 has no separate limit of swap. A swappiness of 0 here is inherited by all groups that are
  // created below.
  if (tree.v1_.contains("memory")) {
    ATOLL_TRY(tree.WriteV1("memory", "memory.swappiness", "0"));
  }
  return tree;
}

Status Tree::Remove(const Host& host, const std::string& base, const std::string& name) {
  // The v2 group goes first, because every sandbox has a group in it.
  ATOLL_TRY(RemoveDir(AT_FDCWD, base + "/" + name));
  for (const auto& [controller, mount_point] : host.v1) {
    ATOLL_TRY(RemoveDir(AT_FDCWD, mount_point + "/" + name));
  }
  return {};
}

Status Tree::CreateGroup(const std::string& group) const {
  ATOLL_TRY(MakeDir(unified_.get(), group));
  ATOLL_TRY(sys::WriteFileAt(unified_.get(), group + "/cgroup.max.depth", kMaxDepth));
  for (const auto& [controller, base] : v1_) {
    if (!OwnGroup(controller)) continue;
    ATOLL_TRY(MakeDir(base.get(), group));
    if (HasRunGroup(controller)) ATOLL_TRY(MakeDir(base.get(), group + "/run"));
  }
  return {};
}

Status Tree::DelegateGroup(const std::string& group, uid_t owner) const {
  const int base = unified_.get();
  if (host_.v2) {
    ATOLL_TRY(EnableControllers(base, group + "/", {"memory", "pids", "cpu", "io"}));
  }
  ATOLL_TRY(MakeDir(base, group + "/execd"));
  ATOLL_TRY(MakeDir(base, group + "/run"));
  // memory is needed for memory.oom.group and the cause of death of each command. pids is not
  // enabled: up to Linux 6.11 the kernel counts a refused fork only in the group that has forked.
  if (host_.v2) ATOLL_TRY(EnableControllers(base, group + "/run/", {"memory"}));
  // cgroups(7), delegation: the directory, cgroup.procs and cgroup.subtree_control. The common
  // ancestor's cgroup.procs must be writable too; otherwise no process could be moved from execd/
  // into run/c1. A process cannot be put into the ancestor itself, because its controllers are
  // enabled.
  for (const char* file : {"/run", "/run/cgroup.procs", "/run/cgroup.threads",
                           "/run/cgroup.subtree_control", "/cgroup.procs"}) {
    if (::fchownat(base, (group + file).c_str(), owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
      return FailSys("chown cgroup " + group + file);
    }
  }
  return {};
}

Status Tree::CreateNested(const std::string& group, const Limits& limits) const {
  if (::mkdirat(unified_.get(), group.c_str(), 0755) != 0) return FailSys("mkdir cgroup " + group);
  const std::string run = group.substr(0, group.rfind('/'));
  // The cpu controller is enabled only if needed, because it makes each command's leaf one more
  // group for the scheduler.
  if (host_.v2 && limits.cpu_millis != 0) {
    ATOLL_TRY(EnableControllers(unified_.get(), run + "/", {"cpu"}));
  }
  if (host_.v2 && limits.pids != 0) {
    ATOLL_TRY(EnableControllers(unified_.get(), run + "/", {"pids"}));
  }
  for (const auto& [controller, limit] : {std::pair{"memory", limits.memory_bytes},
                                          {"pids", limits.pids},
                                          {"cpu", limits.cpu_millis}}) {
    const auto base = v1_.find(controller);
    if (limit == 0 || base == v1_.end()) continue;
    ATOLL_TRY(MakeDir(base->second.get(), run));
    ATOLL_TRY(MakeDir(base->second.get(), group));
    if (HasRunGroup(controller)) ATOLL_TRY(MakeDir(base->second.get(), group + "/run"));
  }
  return {};
}

Status Tree::CreateIntercept(const std::string& group) const {
  const std::string leaf = group + kIntercept;
  ATOLL_TRY(MakeDir(unified_.get(), leaf));
  const std::string most = std::to_string(kInterceptMemory);
  if (host_.v2) {
    ATOLL_TRY(sys::WriteFileAt(unified_.get(), leaf + "/memory.max", most));
    ATOLL_TRY(sys::WriteFileAt(unified_.get(), leaf + "/memory.swap.max", "0"));
    return FitReserveV2(group);
  }
  const auto memory = v1_.find("memory");
  if (memory == v1_.end()) return {};
  ATOLL_TRY(MakeDir(memory->second.get(), leaf));
  ATOLL_TRY(WriteV1("memory", leaf + "/memory.limit_in_bytes", most));
  ATOLL_TRY(WriteV1("memory", leaf + "/memory.swappiness", "0"));
  return FitReserveV1(group);
}

Status Tree::KillIntercept(const std::string& group) const {
  Status killed = Kill(group + kIntercept);
  return !killed && killed.error().error_number() == ENOENT ? Status() : killed;
}

uint64_t Tree::ReserveOf(const std::string& group) const {
  const bool intercepted = ::faccessat(unified_.get(), (group + kIntercept).c_str(), F_OK, 0) == 0;
  return kReserveMemory + (intercepted ? kInterceptMemory : 0);
}

Status Tree::RemoveNested(const std::string& group) const {
  ATOLL_TRY(RemoveGroups(unified_.get(), group));
  for (const auto& [controller, base] : v1_) {
    if (HasRunGroup(controller)) ATOLL_TRY(RemoveDir(base.get(), group + "/run"));
    if (OwnGroup(controller)) ATOLL_TRY(RemoveDir(base.get(), group));
  }
  return {};
}

Status Tree::RemoveGroup(const std::string& group) const {
  ATOLL_TRY(RemoveGroups(unified_.get(), group));
  for (const auto& [controller, v1_base] : v1_) {
    if (!OwnGroup(controller)) continue;
    // A sandbox may end before its sessions.
    ATOLL_TRY(RemoveGroups(v1_base.get(), group + "/run"));
    if (controller == "memory") ATOLL_TRY(RemoveDir(v1_base.get(), group + kIntercept));
    ATOLL_TRY(RemoveDir(v1_base.get(), group));
  }
  return {};
}

Result<std::vector<std::string>> Tree::Groups() const {
  return sys::ListSubdirectories(unified_.get());
}

Result<UniqueFd> Tree::OpenDir(const std::string& group, const std::string& leaf) const {
  return sys::OpenAt(unified_.get(), leaf.empty() ? group : group + "/" + leaf, kDir);
}

Result<std::vector<UniqueFd>> Tree::OpenTasks(const std::string& group) const {
  std::vector<UniqueFd> tasks;
  for (const auto& [controller, base] : v1_) {
    if (!OwnGroup(controller)) continue;
    const std::string place = PlaceOf(base.get(), group, "", HasRunGroup(controller) ? "/run" : "");
    ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(base.get(), place + "/tasks", O_WRONLY));
    tasks.push_back(std::move(fd));
  }
  return tasks;
}

Result<std::vector<UniqueFd>> Tree::OpenRunTasks(const std::string& group) const {
  std::vector<UniqueFd> tasks;
  for (const auto& [controller, base] : v1_) {
    if (!HasRunGroup(controller)) continue;
    const std::string place = PlaceOf(base.get(), group, "/run", "/run");
    ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(base.get(), place + "/tasks", O_WRONLY));
    tasks.push_back(std::move(fd));
  }
  return tasks;
}

Result<std::vector<UniqueFd>> Tree::OpenInterceptTasks(const std::string& group) const {
  std::vector<UniqueFd> tasks;
  for (const auto& [controller, base] : v1_) {
    if (!OwnGroup(controller)) continue;
    const std::string place = controller == "memory" ? group + kIntercept : group;
    ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(base.get(), place + "/tasks", O_WRONLY));
    tasks.push_back(std::move(fd));
  }
  return tasks;
}

Status Tree::EnterShared() const {
  for (const auto& [controller, base] : v1_) {
    if (!OwnGroup(controller)) ATOLL_TRY(sys::WriteFileAt(base.get(), "tasks", "0"));
  }
  return {};
}

std::vector<View> Tree::Views(const std::string& group) const {
  std::vector<View> views;
  for (const auto& [controller, mount_point] : host_.v1) {
    if (controller == "blkio") continue;
    const auto together = [&](const auto& other) {
      return other.second == mount_point && OwnGroup(other.first);
    };
    const bool own = std::any_of(host_.v1.begin(), host_.v1.end(), together);
    views.push_back({controller, mount_point + "/" + name_ + (own ? "/" + group : "")});
  }
  return views;
}

Result<std::vector<UniqueFd>> Tree::OpenAccounts(const std::string& group) const {
  std::vector<UniqueFd> files;
  if (host_.v2) return files;
  for (const auto& [controller, file] : {std::pair{"memory", "/run/memory.usage_in_bytes"},
                                         {"memory", "/run/memory.limit_in_bytes"},
                                         {"memory", "/run/memory.oom_control"},
                                         {"cpu", "/cpu.cfs_quota_us"},
                                         {"pids", "/run/pids.events"}}) {
    const int base = v1_.at(controller).get();
    ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(base, PlaceOf(base, group, file, file), O_RDONLY));
    files.push_back(std::move(fd));
  }
  UniqueFd events(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events) return FailSys("eventfd");
  // Registers the eventfd with "EVENTFD FILE". On v2 a file can be polled instead.
  constexpr size_t kOomControl = 2;
  constexpr const char* kRegister = "/run/cgroup.event_control";
  const int memory = v1_.at("memory").get();
  ATOLL_TRY(sys::WriteFileAt(
      memory, PlaceOf(memory, group, kRegister, kRegister),
      std::to_string(events.get()) + " " + std::to_string(files[kOomControl].get())));
  files.push_back(std::move(events));
  return files;
}

Status Tree::SetLimits(const std::string& group, const Limits& now, const Limits& next) const {
  return host_.v2 ? SetLimitsV2(group, now, next) : SetLimitsV1(group, now, next);
}

Status Tree::Freeze(const std::string& group, bool frozen) const {
  return sys::WriteFileAt(unified_.get(), group + "/cgroup.freeze", frozen ? "1" : "0");
}

Result<bool> Tree::FreezeAsked(const std::string& group) const {
  ATOLL_ASSIGN(const std::string asked,
               sys::ReadFileAt(unified_.get(), group + "/cgroup.freeze", 16));
  return asked.starts_with('1');
}

Result<bool> Tree::Frozen(const std::string& group) const {
  ATOLL_ASSIGN(const std::string events,
               sys::ReadFileAt(unified_.get(), group + "/cgroup.events", 256));
  return events.find("frozen 1") != std::string::npos;
}

std::vector<int> Tree::Descriptors() const {
  std::vector<int> fds = {unified_.get()};
  for (const auto& [controller, directory] : v1_) fds.push_back(directory.get());
  return fds;
}

Result<bool> Tree::Holds(const std::string& group, pid_t pid) const {
  const std::string process = "/proc/" + std::to_string(pid);
  ATOLL_ASSIGN(const std::string places,
               sys::ReadFileAt(AT_FDCWD, process + "/cgroup", kFileLimit));
  const std::string place = "/" + name_ + "/" + group;
  size_t held = IsAt(places, "", place) ? 1 : 0;
  size_t wanted = 1;
  for (const auto& [controller, base] : v1_) {
    if (!OwnGroup(controller)) continue;
    ++wanted;
    if (IsAt(places, controller, place)) ++held;
  }
  if (held == wanted) return true;
  // v1 hierarchies show an exiting process at the root.
  ATOLL_ASSIGN(const std::string stat, sys::ReadFileAt(AT_FDCWD, process + "/stat", kFileLimit));
  return IsExiting(stat);
}

Status Tree::Kill(const std::string& group) const {
  return sys::WriteFileAt(unified_.get(), group + "/cgroup.kill", "1");
}

Status Tree::AwaitEmpty(const std::string& group, int timeout_ms) const {
  ATOLL_ASSIGN(const UniqueFd events,
               sys::OpenAt(unified_.get(), group + "/cgroup.events", O_RDONLY));
  const int64_t by_us = SystemClock().BootMicros() + int64_t{timeout_ms} * 1000;
  for (;;) {
    char text[256];
    const ssize_t n = ::pread(events.get(), text, sizeof text, 0);
    if (n < 0) return FailSys("read cgroup.events of " + group);
    if (std::string_view(text, static_cast<size_t>(n)).find("populated 0") !=
        std::string_view::npos) {
      return {};
    }
    // A change after the read is an event (cgroup-v2.rst, "Interface files").
    pollfd changed{events.get(), POLLPRI, 0};
    const int64_t left_us = std::max<int64_t>(by_us - SystemClock().BootMicros(), 0);
    const auto ready = TEMP_FAILURE_RETRY(::poll(&changed, 1, static_cast<int>(left_us / 1000)));
    if (ready < 0) return FailSys("poll cgroup.events of " + group);
    if (ready == 0) {
      return Fail(Code::kDeadlineExceeded,
                  "processes of " + group + " remain after they were killed");
    }
  }
}

Result<uint64_t> Tree::Dying() const {
  if (host_.v2) return ReadNumber(unified_.get(), "cgroup.stat", "nr_dying_descendants");
  const auto memory = v1_.find("memory");
  struct stat info {};
  if (memory == v1_.end()) return Fail(Code::kUnavailable, "no memory controller");
  if (::fstat(memory->second.get(), &info) != 0) return FailSys("fstat the memory controller");
  const auto groups = MemoryGroups();
  if (!groups) return Fail(Code::kInternal, "/proc/cgroups does not tell the memory groups");
  // kernfs counts the subdirectories of a directory as links. Each group here has its run/, hence
  // the factor.
  const uint64_t alive = 2 * static_cast<uint64_t>(info.st_nlink);
  return std::max(*groups, alive) - alive;
}

Result<UniqueFd> Tree::OpenReclaim(const std::string& group) const {
  if (host_.v2) return sys::OpenAt(unified_.get(), group + "/memory.reclaim", O_WRONLY);
  const auto memory = v1_.find("memory");
  if (memory == v1_.end()) return Fail(Code::kUnimplemented, "no memory controller");
  return sys::OpenAt(memory->second.get(), group + "/memory.force_empty", O_WRONLY);
}

Result<uint64_t> Tree::ReadCpuMicros(const std::string& group) const {
  return ReadNumber(unified_.get(), group + "/cpu.stat", "usage_usec");
}

Result<bool> HasProcesses(const std::string& directory) {
  const auto text = sys::ReadFileAt(AT_FDCWD, directory + "/cgroup.events", kFileLimit);
  // ENODEV: the group was removed during the read.
  if (!text && (text.error().error_number() == ENOENT || text.error().error_number() == ENODEV)) {
    return false;
  }
  if (!text) return Fail(text.error());
  const auto populated = KeyedNumber(*text, "populated");
  if (!populated) return Fail(Code::kInternal, directory + "/cgroup.events: no 'populated'");
  return *populated != 0;
}

Result<uint64_t> CpuMicrosOf(const std::string& directory) {
  return ReadNumber(AT_FDCWD, directory + "/cpu.stat", "usage_usec");
}

std::string DiskOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || major(info.st_dev) == 0) return {};
  const std::string device =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  const std::string sysfs = "/sys/dev/block/" + device;
  if (::access((sysfs + "/partition").c_str(), F_OK) != 0) return device;
  // io.max accepts only whole disks. A partition's directory is within its disk's.
  auto disk = sys::ReadFileAt(AT_FDCWD, sysfs + "/../dev", 64);
  if (!disk) return {};
  while (!disk->empty() && disk->back() == '\n') disk->pop_back();
  return *disk;
}

}  // namespace atl::cgroup
