// The daemon's configuration and its sources in ascending priority: defaults, the TOML file, the
// environment, flags. The table in config_keys.h defines each key's name and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/log_format.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/isolation.h"

namespace atl::daemon {

// A key that signs and verifies routes (OSEP-0011).
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
  uint16_t port = 8080;            // 0: any free port (daemon.json has it)
  std::string api_key;             // empty: made at the first start
  bool insecure_no_api_key = false;
  // The name or address by which clients reach this host, with an optional port. Empty: taken from
  // the request.
  std::string public_host;
  std::string base_path;             // prefix of every endpoint's path: "/atoll"; empty: none
  uint64_t max_sandbox_timeout = 0;  // longest timeout of a create, in seconds; 0: unlimited
  uint32_t keep_alive = 75;          // seconds for which an idle connection is kept
  // PEM files: the certificate with its chain, and its key. Empty: no TLS.
  std::string tls_cert;
  std::string tls_key;
  // Most requests that the daemon handles at a time, not counting streams into sandboxes. 0:
  // unlimited.
  uint32_t limit_concurrency = 1024;
  // [storage]
  std::string data_dir = "/var/lib/atoll";
  // Default size of a named volume; 0: as much as the store has.
  uint64_t volume_default_bytes = 10ULL << 30;
  bool ignore_disk_limits = false;  // those of requests, if the store has no quotas
  // Directories of the host that sandboxes may mount, including everything below them. Empty: none.
  std::vector<std::string> allowed_host_paths;
  // Object stores whose buckets sandboxes may mount, in the form of wire/object_store.h. Empty:
  // none.
  std::vector<std::string> object_stores;
  // [runtime]
  std::string run_dir = "/run/atoll";
  std::string user = "atoll";
  uint32_t pool_size = 8;          // network slots kept prepared
  uint32_t parked_sandboxes = 64;  // most parked sandboxes of all pools together
  uint32_t automatic_pools = 0;    // most pools that are made automatically
  bool access_token = true;
  bool start_spawner = true;  // if none answers; false if it is a service of its own
  uint32_t builds_at_once = 2;
  uint32_t build_queue = 1024;
  // Limits are ceilings, and most sandboxes stay far below theirs. The sum of all limits may be
  // this many times what the host has. 0: only what is really free counts.
  double overcommit = 32;
  // How long the record of an ended sandbox without a deadline stays readable, in seconds; 0: until
  // it is deleted.
  uint64_t keep_ended_seconds = 3600;
  // [secure_runtime]: names of tiers (sandbox/create/isolation.h)
  std::string isolation;                   // tier of creates that ask for none; empty: namespace
  std::vector<std::string> allowed_tiers;  // tiers that a create may ask for; empty: all
  std::string minimum_isolation;           // weakest tier of a sandbox; empty: `isolation`
  std::string runsc;                       // gVisor's program, absolute; empty: no gVisor
  std::string vm_dir;  // directory of `atoll vm prepare`; empty: vm in data_dir, if it was prepared
  std::string vm_accel = "auto";    // auto, kvm or tcg
  bool vm_allow_emulation = false;  // auto may emulate
  uint32_t vm_parked = 0;           // machines kept booted
  // [gpu]
  std::string gpu_kind;     // "nvidia.com/gpu"; empty: sandboxes have no GPU
  bool gpu_shared = false;  // several sandboxes may have one
  std::vector<std::string> gpu_spec_dirs = {"/etc/cdi", "/var/run/cdi"};
  // [images]: rules of images/allowed.h; empty: all
  std::vector<std::string> allowed_images;
  std::vector<std::string> pull_images;  // rules of images/registry/reference.h; empty: none
  std::string pull_auth_file;            // credentials for registries; empty: none
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
  // [limits]: defaults for requests without limits
  cgroup::Limits limits = cgroup::DefaultLimits();
  uint32_t max_sandboxes = 0;  // 0: limited only by the number of slots
  // [snapshots]
  uint32_t max_snapshots = 1000;
  uint64_t max_snapshot_bytes = 0;  // sum over all snapshots; 0: limited only by the store
  // [logs]: of entrypoints
  uint64_t log_max_bytes = 2ULL << 20;  // limit for each sandbox
  uint64_t log_keep_after_removal = 0;  // seconds
  // [usage]
  uint32_t usage_keep_days = 0;  // 0: nothing is metered
  // [prices]: decimal numbers; without a currency no costs are told
  std::string prices_currency;
  std::string price_cpu_hour = "0";
  std::string price_cpu_reserved_hour = "0";
  std::string price_memory_gib_hour = "0";
  std::string price_memory_reserved_gib_hour = "0";
  std::string price_disk_gib_hour = "0";
  std::string price_network_gib = "0";
  std::string price_snapshots_gib_hour = "0";
  std::string price_parked_hour = "0";
  // [renew_intent]
  bool renew_on_access = false;
  uint64_t renew_min_interval = 60;  // seconds between two renewals of one sandbox
  // [idle]: defaults for creates without such extensions
  uint64_t idle_after = 0;  // seconds without use; 0: never
  bool idle_ends = false;   // idle.action: true is "end", false "pause"
  // [pause]
  bool pause_reclaims = false;     // pause.memory: true is "reclaim", false "keep"
  uint64_t swap_bytes = 0;         // pause.swap_size; 0: no swap area
  std::string swap_kind = "auto";  // "dm-crypt" or "zram"; "auto": the first that works
  // [ingress]: the form of endpoints in answers
  bool gateway = false;         // ingress.mode
  std::string gateway_address;  // "sandboxes.example.org[:port]", for wildcard with "*." in front
  std::string gateway_route;    // "wildcard", "uri", "header"
  // [ingress.secure_access]
  std::vector<SigningKey> signing_keys;
  char active_signing_key = 0;  // id of the key that signs new routes; 0: none
  bool short_signatures = false;
  // [otel]
  bool otel_enabled = false;
  std::string otel_endpoint;  // URL for metrics of a collector; empty: see otel_settings.h
  std::string otel_service_name = "opensandbox-server";
  uint32_t otel_interval_ms = 60000;
  // [metrics]
  std::string metrics_listen;  // "127.0.0.1:9464"; empty: only on the API's port
  // [tenants]
  std::string tenants_provider;  // "file" or "http"; empty: the daemon has no tenants
  std::string tenants_file = "/etc/atoll/tenants.toml";
  std::string tenants_endpoint;  // URL that says whose a key is
  std::string tenants_auth_header;
  std::string tenants_auth_token;
  uint32_t tenants_timeout = 5;      // seconds
  uint32_t tenants_max_stale = 300;  // seconds
  std::string tenants_adopt;         // owner of what was there before tenants; empty: the host
  // [audit]
  std::string audit_enabled = "auto";  // "on", "off"; "auto": with tenants
  std::string audit_directory = "/var/log/atoll/audit";
  std::vector<std::string> audit_levels;    // rules of tenants/audit/level.h
  uint64_t audit_keep_days = 365;           // 0: for ever
  uint64_t audit_keep_bytes = 10ULL << 30;  // size of all files; 0: unlimited
  uint64_t audit_tenant_bytes = 16 << 20;   // newest lines of each tenant; 0: none
  std::vector<std::string> audit_sinks;     // lines of tenants/sinks/sink.h; empty: none
  bool audit_refuses = true;                // on_failure: true is "refuse", false "continue"
  std::string record_pty = "off";           // or "output", "input"
  // [history]: of each tenant's sandboxes, unless its definition says otherwise
  uint64_t history_keep = 7 * 86400;        // seconds; 0: no history
  uint64_t history_max_bytes = 1ULL << 30;  // size of records and logs
  // [log]
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

inline constexpr char kDefaultConfigPath[] = "/etc/atoll/atoll.toml";

// A value from outside the file. `where` names the source in errors: "--server-port".
struct Override {
  size_t key = 0;  // index into Keys()
  std::vector<std::string> values;
  std::string where;
};

// All sources of a configuration, kept to load it again when the file has changed.
struct Sources {
  std::string path = kDefaultConfigPath;
  bool must_exist = false;               // the path was given explicitly
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<Override> flags;
};

struct Loaded {
  Config config;
  std::vector<std::string> warnings;  // one for each key that has no effect
  // Set by the environment. LoadConfig applies them if the other sources allow it.
  bool no_key_wanted = false;
  bool no_key_allowed = false;
};

// Loads all sources in order and checks the rules over several keys. If `must_exist` is false,
// SANDBOX_CONFIG_PATH in the environment names the file. Errors name the source, the key and the
// value.
Result<Loaded> LoadConfig(const Sources& sources);

// Parses only the file, on top of the defaults. `name` stands for the file in errors.
Result<Loaded> ParseConfig(std::string_view text, const std::string& name);
// Applies the environment:
//   ATOLL_<SECTION>_<KEY>           every key of the table; lists are separated by commas
//   OPENSANDBOX_SERVER_API_KEY      the API key; if it is empty, there is none
//   OPENSANDBOX_INSECURE_SERVER=YES without an API key, do not require one
//   SANDBOX_TENANTS_CONFIG_PATH     tenants.file
Status ApplyEnvironment(const std::vector<std::string>& environment, Loaded* loaded);
// Returns true if the daemon keeps an audit log: audit.enabled, by default with tenants only.
bool KeepsAudit(const Config& config);
// Checks rules over several keys.
Status CheckConfig(const Config& config);

// Returns the rules of [secure_runtime].
sandbox::Isolation::Policy IsolationPolicyOf(const Config& config);

bool IsLoopback(const std::string& host);

}  // namespace atl::daemon
