// What an OpenSandbox user's file may hold that has no counterpart here. A key that upstream adds
// later is named as unknown, which says the same with less help.
#include <algorithm>
#include <iterator>

#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

struct Foreign {
  std::string_view name;
  const char* why;
};

constexpr char kEventLoop[] = "there is one event loop and nothing to choose about it";
constexpr char kJournal[] =
    "the log goes to standard error: systemd's journal keeps and rotates it";
constexpr char kConfined[] =
    "every sandbox has its own user namespace, no capability on the host, no_new_privs and a "
    "seccomp allow-list; there is no switch to weaken that";
constexpr char kNoPorts[] =
    "no port of the host is taken: what listens in a sandbox is reached through the daemon";

constexpr Foreign kForeign[] = {
    {"agent_sandbox", "there is no Kubernetes here"},
    {"docker.api_timeout", "there is no Docker here to wait for"},
    {"docker.apparmor_profile", kConfined},
    {"docker.drop_capabilities", kConfined},
    {"docker.host_ip", "the daemon runs on the host itself; what endpoints name is server.eip"},
    {"docker.network_mode",
     "every sandbox has a network of its own behind the host's address translation"},
    {"docker.no_new_privileges", kConfined},
    {"docker.port_range_max", kNoPorts},
    {"docker.port_range_min", kNoPorts},
    {"docker.publish_host", kNoPorts},
    {"docker.sandbox_binds",
     "a create names its volumes, of what storage.allowed_host_paths opens"},
    {"docker.sandbox_env", "what a sandbox finds in its environment is said by image and create"},
    {"docker.seccomp_profile", kConfined},
    {"egress",
     "egress is enforced by the daemon itself, for every sandbox, by address and by name; there is "
     "no sidecar"},
    {"kubernetes", "there is no Kubernetes here"},
    {"log.access_file_path", kJournal},
    {"log.file_backup_count", kJournal},
    {"log.file_enabled", kJournal},
    {"log.file_max_bytes", kJournal},
    {"log.file_path", kJournal},
    {"proxy", "requests reach a sandbox by a socket of its own: there is no address to choose"},
    {"renew_intent.redis", "access is seen where it passes, by the daemon: no queue is needed"},
    {"runtime.execd_image", "execd is installed with the daemon and put into every sandbox"},
    {"runtime.execd_run_as_init", "execd is process 1 of every sandbox"},
    {"runtime.type",
     "sandboxes are built by this host's kernel alone, without a container runtime"},
    {"secure_runtime", "there is one kind of sandbox; requests for another are refused"},
    {"server.backlog", "the listener's queue is long enough for a burst of a thousand clients"},
    {"server.http", kEventLoop},
    {"server.loop", kEventLoop},
    {"server.thread_pool_size", kEventLoop},
    {"server.timeout_graceful_shutdown",
     "a stop gives exchanges in progress 50 ms, and leaves sandboxes alone"},
    {"storage.ossfs_mount_root",
     "a bucket has no directory of the host; storage.object_stores says which there are"},
    {"store", "state is kept in SQLite, in storage.data_dir"},
    {"tenants", "there is one tenant, who has server.api_key"},
};

}  // namespace

const char* WhyForeign(std::string_view name) {
  const auto* found = std::find_if(std::begin(kForeign), std::end(kForeign),
                                   [name](const Foreign& entry) { return entry.name == name; });
  return found == std::end(kForeign) ? nullptr : found->why;
}

}  // namespace atl::daemon
