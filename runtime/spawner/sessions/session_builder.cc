#include "runtime/spawner/sessions/session_builder.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "runtime/base/sys.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/sessions/session_start.h"
#include "runtime/spawner/slot/execd_process.h"

namespace atl::spawner {
namespace {

// Returns the sandbox's limit of open files if one was asked for: then soft and hard are equal.
// prlimit(2) would need CAP_SYS_RESOURCE.
Result<uint64_t> FilesOf(const std::string& proc) {
  ATOLL_ASSIGN(const std::string limits, sys::ReadFileAt(AT_FDCWD, proc + "/limits", 8192));
  constexpr std::string_view kName = "Max open files";
  std::string_view rest = limits;
  rest.remove_prefix(std::min(rest.find(kName), rest.size()));
  uint64_t soft = 0, hard = 0;
  for (uint64_t* limit : {&soft, &hard}) {
    rest.remove_prefix(std::min(rest.find_first_of("0123456789"), rest.size()));
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *limit);
    if (error != std::errc())
      return Fail(Code::kInternal, "no limit of files in " + proc + "/limits");
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  return soft == hard ? hard : 0;
}

// Takes the sandbox's user namespace, or makes one beside it; neither has rights over the other.
Status TakeUserNamespace(const std::string& proc, SessionParts* parts) {
  if (!parts->message->mapped) {
    parts->execd = parts->base;
    ATOLL_ASSIGN(parts->user_namespace, sys::Open(proc + "/ns/user", O_RDONLY));
    return {};
  }
  ATOLL_ASSIGN(parts->user_namespace,
               MakeSessionUserNamespace(parts->base, parts->message->user, &parts->execd));
  return {};
}

Status MakeUppers(const Host& host, uint32_t slot, SessionParts* parts) {
  const wire::SessionSpec& spec = parts->message->spec;
  const size_t overlays = CountOverlays(spec);
  if (overlays == 0) return {};
  ATOLL_TRY(host.store.CreateSessionUppers(slot, spec.number, overlays));
  ATOLL_ASSIGN(const UniqueFd id_map, MakeUserNamespace({kStoreIdBase, parts->base}));
  const std::string path = host.store.path() + "/" + Store::SessionPath(slot, spec.number);
  ATOLL_ASSIGN(parts->store, CloneMount(AT_FDCWD, path.c_str(), false));
  return SetMountAttributes(parts->store.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, id_map.get(),
                            false, MS_PRIVATE);
}

}  // namespace

Status BuildSession(const Host& host, uint32_t slot, int sandbox, pid_t pid,
                    const wire::MakeSession& message) {
  SessionParts parts{.message = &message,
                     .filter = &host.session_filter,
                     .program = host.execd.get(),
                     .cgroup_v2 = host.cgroups.host().v2,
                     .capabilities = host.config.capabilities,
                     .base = host.IdBase(slot)};
  const std::string proc = "/proc/" + std::to_string(pid);
  ATOLL_TRY(host.cgroups.EnterShared());
  ATOLL_TRY(LimitUsers());
  ATOLL_TRY(TakeUserNamespace(proc, &parts));
  ATOLL_TRY(CheckKept(host, LimitsOf(message.terms)));
  ATOLL_TRY(MakeSessionGroup(host.cgroups, SlotGroup(slot), &parts));
  ATOLL_TRY(MakeUppers(host, slot, &parts));
  ATOLL_ASSIGN(parts.nofile, FilesOf(proc));
  return StartSession(parts, sandbox);
}

}  // namespace atl::spawner
