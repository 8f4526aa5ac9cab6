// Keys of OpenSandbox's configuration without a counterpart here. A key that upstream adds later is
// reported as unknown, with less help.
#include <algorithm>
#include <iterator>

#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

struct Foreign {
  std::string_view name;
  const char* why;
};

constexpr char kEventLoop[] = "atolld always runs one event loop, which cannot be configured";
constexpr char kJournal[] =
    "the log goes to standard error; systemd's journal keeps and rotates it";
constexpr char kConfined[] =
    "every sandbox has its own user namespace, no capability on the host, no_new_privs and a "
    "seccomp allow-list, and none of this can be turned off";
constexpr char kNoPorts[] =
    "atolld uses no ports of the host for sandboxes; services in a sandbox are reached through the "
    "daemon";

constexpr Foreign kForeign[] = {
    {"agent_sandbox", "Atoll does not use Kubernetes"},
    {"docker.api_timeout", "Atoll does not use Docker"},
    {"docker.apparmor_profile", kConfined},
    {"docker.drop_capabilities", kConfined},
    {"docker.host_ip",
     "the daemon runs on the host itself; use server.eip for the address in endpoints"},
    {"docker.network_mode",
     "every sandbox has its own network behind the host's address translation"},
    {"docker.no_new_privileges", kConfined},
    {"docker.port_range_max", kNoPorts},
    {"docker.port_range_min", kNoPorts},
    {"docker.publish_host", kNoPorts},
    {"docker.sandbox_binds", "a create names its volumes, within storage.allowed_host_paths"},
    {"docker.sandbox_env",
     "the environment of a sandbox comes from its image and the create request"},
    {"docker.seccomp_profile", kConfined},
    {"egress",
     "the daemon itself enforces egress for every sandbox, by address and by name, without a "
     "sidecar"},
    {"kubernetes", "Atoll does not use Kubernetes"},
    {"log.access_file_path", kJournal},
    {"log.file_backup_count", kJournal},
    {"log.file_enabled", kJournal},
    {"log.file_max_bytes", kJournal},
    {"log.file_path", kJournal},
    {"proxy", "requests reach a sandbox through its own socket, so there is no address to choose"},
    {"renew_intent.redis", "the daemon sees every access itself, so no queue is needed"},
    {"runtime.execd_image", "execd is installed with the daemon and runs in every sandbox"},
    {"runtime.execd_run_as_init", "execd is process 1 of every sandbox"},
    {"runtime.type", "sandboxes use only this host's kernel, without a container runtime"},
    {"secure_runtime.docker_runtime",
     "Atoll does not use Docker; secure_runtime.type alone chooses the isolation"},
    {"secure_runtime.k8s_runtime_class",
     "Atoll does not use Kubernetes; secure_runtime.type alone chooses the isolation"},
    {"server.backlog", "the listener's queue is large enough for a burst of a thousand clients"},
    {"server.http", kEventLoop},
    {"server.loop", kEventLoop},
    {"server.thread_pool_size", kEventLoop},
    {"server.timeout_graceful_shutdown",
     "a stop gives exchanges in progress 50 ms, and sandboxes keep running"},
    {"storage.ossfs_mount_root",
     "a bucket has no directory on the host; use storage.object_stores"},
    {"store", "state is kept in SQLite, in storage.data_dir"},
};

}  // namespace

const char* WhyForeign(std::string_view name) {
  const auto* found = std::find_if(std::begin(kForeign), std::end(kForeign),
                                   [name](const Foreign& entry) { return entry.name == name; });
  return found == std::end(kForeign) ? nullptr : found->why;
}

}  // namespace atl::daemon
