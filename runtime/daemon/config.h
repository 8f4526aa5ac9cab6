// The daemon's configuration, and the order in which it is put together: defaults, then the TOML
// file, then the environment, then flags. config_keys.h has the table that says what a key is
// called and what it may hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/log_format.h"
#include "runtime/base/result.h"

namespace atl::daemon {

// A key that signed routes are made and checked with (OSEP-0011).
struct SigningKey {
  char id = 0;         // 0-9 or a-z
  std::string secret;  // decoded, never empty
  bool operator==(const SigningKey&) const = default;
};

// netpolicy::DefaultPrivate as text.
std::vector<std::string> DefaultPrivateNetworks();

struct Config {
  // [server]
  std::string host = "127.0.0.1";  // a literal address
  uint16_t port = 8080;            // 0: any free one (daemon.json tells which)
  std::string api_key;             // empty: made at the first start
  bool insecure_no_api_key = false;
  // What clients reach this host as, a name or address with an optional port; empty: as the request
  // says.
  std::string public_host;
  std::string base_path;             // before the path of every endpoint: "/atoll"; empty: none
  uint64_t max_sandbox_timeout = 0;  // seconds that a create may ask for; 0: any number
  uint32_t keep_alive = 75;          // seconds that an idle connection is kept
  // PEM files: the certificate with its chain, and its key. Empty: no TLS.
  std::string tls_cert;
  std::string tls_key;
  // Requests that the daemon itself may have in hand at once (streams into sandboxes do not count);
  // 0: any number.
  uint32_t limit_concurrency = 1024;
  // [storage]
  std::string data_dir = "/var/lib/atoll";
  // What a named volume may hold that nobody has given a size; 0: as much as the store.
  uint64_t volume_default_bytes = 10ULL << 30;
  // Directories of the host that sandboxes may mount, with everything below; empty: none.
  std::vector<std::string> allowed_host_paths;
  // Stores of objects whose buckets sandboxes may mount, as lines of wire/object_store.h; empty:
  // none.
  std::vector<std::string> object_stores;
  // [runtime]
  std::string run_dir = "/run/atoll";
  std::string user = "atoll";
  uint32_t pool_size = 8;          // network slots kept ready
  uint32_t parked_sandboxes = 64;  // that all pools together may keep
  uint32_t automatic_pools = 0;    // that make themselves
  bool access_token = true;
  bool start_spawner = true;  // if none answers; false where it is a service of its own
  uint32_t builds_at_once = 2;
  uint32_t build_queue = 1024;
  // Limits are ceilings, and most sandboxes stay far below theirs: the sum of all of them may be
  // this many times what the host has. 0: no bound but what is really free.
  double overcommit = 32;
  // How long the record of a sandbox that has ended, and has no deadline, can be read; 0: until it
  // is deleted.
  uint64_t keep_ended_seconds = 3600;
  // [images]: rules of images/allowed.h; none: all
  std::vector<std::string> allowed_images;
  std::vector<std::string> pull_images;  // rules of images/registry/reference.h; none: nothing
  std::string pull_auth_file;            // who we are to registries; empty: nobody
  std::string pull_ca;                   // PEM file of authorities; empty: the host's
  // [network]
  std::vector<std::string> dns;  // upstream resolvers; empty: the host's
  bool deny_unless_asked = false;
  std::vector<std::string> deny_always;  // targets of policy rules
  std::vector<std::string> allow_always;
  std::vector<std::string> private_networks = DefaultPrivateNetworks();  // prefixes
  bool allow_unnamed = false;
  uint32_t max_connections = 4096;
  std::string denial_webhook;  // URL; empty: none
  // [limits]: what a sandbox gets that asks for nothing
  cgroup::Limits limits = cgroup::UsualLimits();
  uint32_t max_sandboxes = 0;  // 0: as many as there are slots
  // [snapshots]
  uint32_t max_snapshots = 1000;
  uint64_t max_snapshot_bytes = 0;  // of all together; 0: what the store has room for
  // [logs]: of entrypoints
  uint64_t log_max_bytes = 2ULL << 20;  // for each sandbox
  uint64_t log_keep_after_removal = 0;  // seconds
  // [renew_intent]
  bool renew_on_access = false;
  uint64_t renew_min_interval = 60;  // seconds between two renewals of one sandbox
  // [idle]: of sandboxes whose create says nothing
  uint64_t idle_after = 0;  // seconds that nobody uses it; 0: it may be idle
  bool idle_ends = false;   // idle.action: end, else pause
  // [pause]
  bool pause_reclaims = false;     // pause.memory: reclaim, else keep
  uint64_t swap_bytes = 0;         // pause.swap_size; 0: no swap area
  std::string swap_kind = "auto";  // "dm-crypt", "zram"
  // [ingress]: the form in which endpoints are told
  bool gateway = false;         // ingress.mode
  std::string gateway_address;  // "sandboxes.example.org[:port]", "*." before it for wildcard
  std::string gateway_route;    // "wildcard", "uri", "header"
  // [ingress.secure_access]
  std::vector<SigningKey> signing_keys;
  char active_signing_key = 0;  // id of the one that new routes are signed with; 0: none
  bool short_signatures = false;
  // [otel]
  bool otel_enabled = false;
  std::string otel_endpoint;  // URL of a collector's metrics; empty: see otel_settings.h
  std::string otel_service_name = "opensandbox-server";
  uint32_t otel_interval_ms = 60000;
  // [metrics]
  std::string metrics_listen;  // "127.0.0.1:9464"; empty: on the API's port alone
  // [log]
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

inline constexpr char kDefaultConfigPath[] = "/etc/atoll/atoll.toml";

// What somebody gave for a key outside the file; `where` is for errors: "--server-port".
struct Override {
  size_t key = 0;  // index into Keys()
  std::vector<std::string> values;
  std::string where;
};

// Everything that a configuration is made of, kept to make it again when the file has changed.
struct Sources {
  std::string path = kDefaultConfigPath;
  bool must_exist = false;               // somebody named the path
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<Override> flags;
};

struct Loaded {
  Config config;
  std::vector<std::string> warnings;  // one for each key that has no effect
  // From the environment; LoadConfig makes of them what the other sources allow.
  bool no_key_wanted = false;
  bool no_key_allowed = false;
};

// All sources in their order, and the rules over several keys. SANDBOX_CONFIG_PATH in the
// environment names the file if `must_exist` is false. Errors name the source, the key and the
// value.
Result<Loaded> LoadConfig(const Sources& sources);

// The file's part alone, over the defaults; `name` stands for the file in errors.
Result<Loaded> ParseConfig(std::string_view text, const std::string& name);
// The environment's part:
//   ATOLL_<SECTION>_<KEY>           every key of the table; lists are separated by commas
//   OPENSANDBOX_SERVER_API_KEY      the API key, even if it is empty: then there is none
//   OPENSANDBOX_INSECURE_SERVER=YES without an API key, ask for none
Status ApplyEnvironment(const std::vector<std::string>& environment, Loaded* loaded);
// Rules over several keys.
Status CheckConfig(const Config& config);

bool IsLoopback(const std::string& host);

}  // namespace atl::daemon
