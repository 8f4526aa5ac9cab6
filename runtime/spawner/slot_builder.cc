#include "runtime/spawner/slot_builder.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/namespaces.h"
#include "runtime/spawner/slot_mounts.h"

namespace atl::spawner {
namespace {

constexpr size_t kFdCount = 6;
constexpr size_t kMaxMessage = 4096;

struct Sysctl {
  const char* path;
  const char* value;
};
// In the slot's own network namespace. The first two give unprivileged programs what they have in
// every container: ports below 1024 and ping. The rest keeps the kernel from sending or accepting
// anything that the host did not set up (addresses, routes, neighbours are all static); IPv6 may be
// switched off on the host, then its files are not there.
constexpr Sysctl kSysctls[] = {
    {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
    {"/proc/sys/net/ipv4/ping_group_range", "0 4294967294"},
    {"/proc/sys/net/ipv6/conf/all/accept_ra", "0"},
    {"/proc/sys/net/ipv6/conf/default/accept_ra", "0"},
    {"/proc/sys/net/ipv6/conf/default/accept_dad", "0"},
    {"/proc/sys/net/ipv6/conf/default/autoconf", "0"},
};

Status WriteSysctls() {
  for (const Sysctl& sysctl : kSysctls) {
    const Status written = sys::WriteFileAt(AT_FDCWD, sysctl.path, sysctl.value);
    if (!written && written.error().error_number() != ENOENT) return written;
  }
  return {};
}

// Enters new network, ipc and mount namespaces for good, and furnishes them.
Status MakeNamespaces(const Host& host, uid_t base, BuiltSlot* built) {
  ATOLL_ASSIGN(const UniqueFd id_map, MakeUserNamespace({kStoreIdBase, base}, false));
  if (::setns(built->slot.cgroup.get(), CLONE_NEWCGROUP) != 0) return FailSys("setns cgroup");
  if (::unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS) != 0) return FailSys("unshare");
  ATOLL_TRY(WriteSysctls());
  built->rtnetlink.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!built->rtnetlink) return FailSys("socket NETLINK_ROUTE");
  ATOLL_ASSIGN(built->slot.network, sys::Open("/proc/self/ns/net", O_RDONLY));
  ATOLL_ASSIGN(built->slot.ipc, sys::Open("/proc/self/ns/ipc", O_RDONLY));
  ATOLL_ASSIGN(built->slot.mounts, sys::Open("/proc/self/ns/mnt", O_RDONLY));
  return AssembleMounts(host, base, id_map.get());
}

Result<BuiltSlot> Build(const Host& host, uint32_t number, const wire::Limits& limits) {
  BuiltSlot built;
  const uid_t base = host.IdBase(number);
  const std::string group = SlotGroup(number);
  ATOLL_TRY(host.cgroups.CreateGroup(group));
  ATOLL_ASSIGN(const UniqueFd group_dir, host.cgroups.OpenDir(group, ""));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, host.cgroups.OpenTasks(group, true));
  ATOLL_ASSIGN(built.slot.cgroup, MakeCgroupNamespace(group_dir.get(), tasks));
  ATOLL_TRY(host.cgroups.DelegateGroup(group, base));
  ATOLL_TRY(host.cgroups.SetLimits(group, {}, limits));
  ATOLL_TRY(host.store.CreateUpper(number));
  ATOLL_ASSIGN(built.slot.user, MakeUserNamespace({0, base}, true));
  ATOLL_TRY(MakeNamespaces(host, base, &built));
  return built;
}

[[noreturn]] void RunBuilder(const Host& host, uint32_t number, const wire::Limits& limits,
                             int channel) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  auto built = Build(host, number, limits);
  Status sent;
  if (built) {
    const int fds[kFdCount] = {built->slot.network.get(), built->slot.cgroup.get(),
                               built->slot.ipc.get(),     built->slot.mounts.get(),
                               built->slot.user.get(),    built->rtnetlink.get()};
    sent = sys::SendMessage(channel, "+", fds);
  } else {
    sent = sys::SendMessage(channel, built.error().message().substr(0, kMaxMessage));
  }
  ::_exit(sent ? 0 : 1);
}

}  // namespace

Result<SlotBuild> StartSlotBuild(const Host& host, uint32_t slot, const wire::Limits& limits) {
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_SEQPACKET));
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork slot builder");
  if (pid == 0) {
    pair.a.reset();
    RunBuilder(host, slot, limits, pair.b.get());
  }
  return SlotBuild{pid, std::move(pair.a)};
}

Result<BuiltSlot> ReceiveSlot(int channel, const wire::Limits& limits) {
  ATOLL_ASSIGN(sys::Message message, sys::ReceiveMessage(channel, kMaxMessage));
  if (message.bytes != "+" || message.fds.size() != kFdCount) {
    return Fail(Code::kInternal,
                "prepare slot: " + (message.bytes.empty() ? "the builder died" : message.bytes));
  }
  BuiltSlot built;
  built.slot.network = std::move(message.fds[0]);
  built.slot.cgroup = std::move(message.fds[1]);
  built.slot.ipc = std::move(message.fds[2]);
  built.slot.mounts = std::move(message.fds[3]);
  built.slot.user = std::move(message.fds[4]);
  built.rtnetlink = std::move(message.fds[5]);
  built.slot.limits = limits;
  return built;
}

}  // namespace atl::spawner
