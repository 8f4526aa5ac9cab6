#include "runtime/daemon/config.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "cgroup/limits_text.h"
#include "runtime/daemon/config_keys.h"
#include "runtime/daemon/config_text.h"
#include "runtime/daemon/config_values.h"

namespace atl::daemon {
namespace {

Config Parsed(const std::string& text) {
  const auto loaded = ParseConfig(text, "f");
  EXPECT_TRUE(loaded) << loaded.error().message();
  if (!loaded) return {};
  EXPECT_TRUE(loaded->warnings.empty()) << loaded->warnings[0];
  return loaded->config;
}

std::string ErrorOf(const std::string& text) {
  const auto loaded = ParseConfig(text, "f");
  EXPECT_FALSE(loaded) << text;
  return loaded ? "" : loaded.error().message();
}

TEST(Config, EmptyIsTheDefaults) {
  const Config config = Parsed("");
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.port, 8080);
  EXPECT_EQ(config.data_dir, "/var/lib/atoll");
  EXPECT_EQ(config.run_dir, "/run/atoll");
  EXPECT_EQ(config.user, "atoll");
  EXPECT_TRUE(CheckConfig(config));
}

TEST(Config, EveryKeyOfTheServer) {
  const Config c = Parsed(R"(
[server]
host = "::1"
port = 9000
api_key = "0123456789"
insecure_no_api_key = false
eip = "https://sandbox.example.com:8443/"
base_path = "/atoll/"
max_sandbox_timeout_seconds = 86400
timeout_keep_alive = 30
limit_concurrency = 7
[log]
level = "WARN"
)");
  EXPECT_EQ(c.host, "::1");
  EXPECT_EQ(c.port, 9000);
  EXPECT_EQ(c.api_key, "0123456789");
  EXPECT_EQ(c.public_host, "sandbox.example.com:8443");
  EXPECT_EQ(c.base_path, "/atoll");
  EXPECT_EQ(c.max_sandbox_timeout, 86400U);
  EXPECT_EQ(c.keep_alive, 30U);
  EXPECT_EQ(c.limit_concurrency, 7U);
  EXPECT_EQ(c.log_level, LogLevel::kWarning);
}

TEST(Config, EveryKeyOfTheRuntime) {
  const Config c = Parsed(R"(
[storage]
data_dir = "/srv/atoll/"
allowed_host_paths = ["/srv/data", "/srv/shared/"]
object_stores = ["main https://s3.example bucket=data"]
[runtime]
run_dir = "/run/a"
user = "nobody"
pool_size = 3
parked_sandboxes = 5
access_token = false
start_spawner = false
builds_at_once = 4
build_queue = 9
overcommit = 1.5
keep_ended_seconds = 0
[images]
allowed = ["team/*"]
pull = ["registry.example/team/*", "docker.io/library/python"]
pull_auth = "/etc/atoll/registries.json"
pull_ca = "/etc/atoll/registries.pem"
[network]
dns = ["9.9.9.9", "1.1.1.1:53"]
)");
  EXPECT_EQ(c.data_dir, "/srv/atoll");
  EXPECT_EQ(c.allowed_host_paths, (std::vector<std::string>{"/srv/data", "/srv/shared"}));
  EXPECT_EQ(c.object_stores, (std::vector<std::string>{"main https://s3.example bucket=data"}));
  EXPECT_EQ(c.run_dir, "/run/a");
  EXPECT_EQ(c.user, "nobody");
  EXPECT_EQ(c.pool_size, 3U);
  EXPECT_EQ(c.parked_sandboxes, 5U);
  EXPECT_FALSE(c.access_token);
  EXPECT_FALSE(c.start_spawner);
  EXPECT_EQ(c.builds_at_once, 4U);
  EXPECT_EQ(c.build_queue, 9U);
  EXPECT_EQ(c.overcommit, 1.5);
  EXPECT_EQ(c.keep_ended_seconds, 0U);
  EXPECT_EQ(c.allowed_images, (std::vector<std::string>{"team/*"}));
  EXPECT_EQ(c.pull_images, (std::vector<std::string>{"registry.example/team/*", "python:*"}));
  EXPECT_EQ(c.pull_auth_file, "/etc/atoll/registries.json");
  EXPECT_EQ(c.pull_ca, "/etc/atoll/registries.pem");
  EXPECT_EQ(c.dns, (std::vector<std::string>{"9.9.9.9", "1.1.1.1:53"}));
}

TEST(Config, EveryKeyOfTheGpus) {
  const Config c = Parsed(R"(
[gpu]
kind = "nvidia.com/gpu"
shared = true
spec_dirs = ["/etc/cdi/"]
)");
  EXPECT_EQ(c.gpu_kind, "nvidia.com/gpu");
  EXPECT_TRUE(c.gpu_shared);
  EXPECT_EQ(c.gpu_spec_dirs, std::vector<std::string>{"/etc/cdi"});
  for (const char* kind : {"nvidia", "/gpu", "nvidia.com/", "nvidia.com/gpu=0", "a/b/c"}) {
    EXPECT_NE(ErrorOf(std::string("[gpu]\nkind = \"") + kind + "\"").find("gpu.kind"),
              std::string::npos);
  }
}

TEST(Config, EveryKeyOfUsageAndItsPrices) {
  EXPECT_EQ(Parsed("").usage_keep_days, 0U) << "nothing is metered unless the operator wants it";
  const Config c = Parsed(R"(
[usage]
keep_days = 90
[prices]
currency = "EUR"
cpu_hour = "0.04"
cpu_reserved_hour = "0.01"
memory_gib_hour = "0.005"
memory_reserved_gib_hour = "0.002"
disk_gib_hour = "0.0001"
network_gib = "0.09"
snapshots_gib_hour = "0.00003"
parked_hour = "0.02"
)");
  EXPECT_EQ(c.usage_keep_days, 90U);
  EXPECT_EQ(c.prices_currency, "EUR");
  EXPECT_EQ(c.price_cpu_hour, "0.04");
  EXPECT_EQ(c.price_cpu_reserved_hour, "0.01");
  EXPECT_EQ(c.price_memory_gib_hour, "0.005");
  EXPECT_EQ(c.price_memory_reserved_gib_hour, "0.002");
  EXPECT_EQ(c.price_disk_gib_hour, "0.0001");
  EXPECT_EQ(c.price_network_gib, "0.09");
  EXPECT_EQ(c.price_snapshots_gib_hour, "0.00003");
  EXPECT_EQ(c.price_parked_hour, "0.02");
}

TEST(Config, EveryKeyOfTheIsolation) {
  EXPECT_EQ(IsolationPolicyOf(Parsed("")).type, "namespace");
  const Config c = Parsed(R"(
[secure_runtime]
type = "kata"
allow = ["gvisor", "firecracker"]
minimum = "gvisor"
runsc = "/usr/local/bin/runsc"
)");
  EXPECT_TRUE(CheckConfig(c));
  EXPECT_EQ(c.runsc, "/usr/local/bin/runsc");
  EXPECT_EQ(c.vm_accel, "auto");
  EXPECT_FALSE(c.vm_allow_emulation);
  const Config vm = Parsed(R"(
[secure_runtime]
vm_dir = "/srv/vm"
vm_accel = "tcg"
vm_allow_emulation = true
)");
  EXPECT_EQ(vm.vm_dir, "/srv/vm");
  EXPECT_EQ(vm.vm_accel, "tcg");
  EXPECT_TRUE(vm.vm_allow_emulation);
  EXPECT_NE(ErrorOf("[secure_runtime]\nvm_dir = \"vm\"").find("secure_runtime.vm_dir"),
            std::string::npos);
  EXPECT_NE(ErrorOf("[secure_runtime]\nvm_accel = \"hvf\"").find("use auto, kvm or tcg"),
            std::string::npos);
  const std::string parked = "[secure_runtime]\nvm_parked = 2\n";
  EXPECT_TRUE(CheckConfig(Parsed(parked + "type = \"kata\"")));
  EXPECT_FALSE(CheckConfig(Parsed(parked)));
  EXPECT_FALSE(CheckConfig(Parsed(parked + "type = \"microvm\"\n[limits]\nmemory = \"127Mi\"")));
  EXPECT_NE(ErrorOf("[secure_runtime]\nrunsc = \"runsc\"").find("secure_runtime.runsc"),
            std::string::npos);
  const sandbox::Isolation::Policy policy = IsolationPolicyOf(c);
  EXPECT_EQ(policy.type, "microvm");
  EXPECT_EQ(policy.allowed, (std::vector<std::string>{"gvisor", "microvm"}));
  EXPECT_EQ(policy.minimum, "gvisor");
  EXPECT_FALSE(CheckConfig(Parsed("[secure_runtime]\nminimum = \"gvisor\"")));
  EXPECT_FALSE(CheckConfig(Parsed("[secure_runtime]\nallow = [\"gvisor\"]")));
}

TEST(Config, EveryKeyOfTheFeatures) {
  const Config c = Parsed(R"(
[limits]
cpu = 0.5
memory = "1Gi"
pids = 100
disk = 0
max_sandboxes = 40
[logs]
max_bytes = "1Mi"
keep_after_removal_seconds = 60
[renew_intent]
enabled = true
min_interval_seconds = 5
[idle]
after_seconds = 900
action = "end"
[pause]
memory = "reclaim"
swap_size = "8Gi"
swap_kind = "zram"
[otel]
enabled = true
endpoint = "https://collector.example/v1/metrics"
service_name = "atoll one"
export_interval_millis = 1000
[metrics]
listen = "[::1]:9464"
[tenants]
provider = "http"
file = "/srv/tenants.toml"
endpoint = "https://keys.example/who"
auth_header = "Authorization"
auth_token = "Bearer of-the-daemon"
timeout_seconds = 3
max_stale_seconds = 60
adopt = "red"
[audit]
enabled = "on"
directory = "/srv/audit"
level = ["*=meta", "exec.*=full"]
keep_days = 30
keep_bytes = "1Gi"
tenant_bytes = "32Mi"
sinks = ["journald", "syslog://logs.example:6514 ca=/etc/ca.pem"]
on_failure = "continue"
record_pty = "input"
[history]
keep = "12h"
max_bytes = "64Mi"
[log]
format = "json"
[ingress.secure_access]
active_key = "b"
[[ingress.secure_access.keys]]
key_id = "a"
key = "AAEC"
[[ingress.secure_access.keys]]
key_id = "b"
key = "/+8"
)");
  EXPECT_EQ(c.limits.cpu_millis, 500U);
  EXPECT_EQ(c.limits.memory_bytes, 1ULL << 30);
  EXPECT_EQ(c.limits.pids, 100U);
  EXPECT_EQ(c.limits.disk_bytes, 0U);
  EXPECT_EQ(c.max_sandboxes, 40U);
  EXPECT_EQ(c.log_max_bytes, 1U << 20);
  EXPECT_EQ(c.log_keep_after_removal, 60U);
  EXPECT_TRUE(c.renew_on_access);
  EXPECT_EQ(c.renew_min_interval, 5U);
  EXPECT_EQ(c.idle_after, 900U);
  EXPECT_TRUE(c.idle_ends);
  EXPECT_TRUE(c.pause_reclaims);
  EXPECT_EQ(c.swap_bytes, 8ULL << 30);
  EXPECT_EQ(c.swap_kind, "zram");
  EXPECT_TRUE(c.otel_enabled);
  EXPECT_EQ(c.otel_endpoint, "https://collector.example/v1/metrics");
  EXPECT_EQ(c.otel_service_name, "atoll one");
  EXPECT_EQ(c.otel_interval_ms, 1000U);
  EXPECT_EQ(PartsOfListen(c.metrics_listen), (std::pair<std::string, uint16_t>("::1", 9464)));
  EXPECT_EQ(c.tenants_provider, "http");
  EXPECT_EQ(c.tenants_file, "/srv/tenants.toml");
  EXPECT_EQ(c.tenants_endpoint, "https://keys.example/who");
  EXPECT_EQ(c.tenants_auth_header, "Authorization");
  EXPECT_EQ(c.tenants_auth_token, "Bearer of-the-daemon");
  EXPECT_EQ(c.tenants_timeout, 3U);
  EXPECT_EQ(c.tenants_max_stale, 60U);
  EXPECT_EQ(c.tenants_adopt, "red");
  EXPECT_EQ(c.audit_enabled, "on");
  EXPECT_EQ(c.audit_directory, "/srv/audit");
  EXPECT_EQ(c.audit_levels, (std::vector<std::string>{"*=meta", "exec.*=full"}));
  EXPECT_EQ(c.audit_keep_days, 30U);
  EXPECT_EQ(c.audit_keep_bytes, 1ULL << 30);
  EXPECT_EQ(c.audit_tenant_bytes, 32ULL << 20);
  EXPECT_EQ(c.audit_sinks.size(), 2U);
  EXPECT_FALSE(c.audit_refuses);
  EXPECT_EQ(c.record_pty, "input");
  EXPECT_EQ(c.history_keep, 12U * 3600);
  EXPECT_EQ(c.history_max_bytes, 64ULL << 20);
  EXPECT_EQ(c.log_format, LogFormat::kJson);
  EXPECT_EQ(c.active_signing_key, 'b');
  EXPECT_EQ(c.signing_keys,
            (std::vector<SigningKey>{{'a', std::string("\0\1\2", 3)}, {'b', "\xff\xef"}}));
  EXPECT_TRUE(CheckConfig(c));
}

TEST(Config, QuantitiesAreNumbersOrTextsWithAUnit) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const std::string key = std::string("[limits]\n") + field.name + " = ";
    EXPECT_EQ(Parsed("").limits.*field.value, field.default_value) << key;
    const char* quote = field.kind == cgroup::LimitKind::kCount ? "" : "\"";
    const Config c = Parsed(key + quote + cgroup::LimitText(field, field.largest) + quote);
    EXPECT_EQ(c.limits.*field.value, field.largest) << key;
  }
  EXPECT_EQ(Parsed("[limits]\ncpu = 2").limits.cpu_millis, 2000U);
  EXPECT_EQ(Parsed("[limits]\ncpu = \"250m\"").limits.cpu_millis, 250U);
  EXPECT_EQ(Parsed("[limits]\nmemory = 16777216").limits.memory_bytes, 16U << 20);
}

TEST(Config, UpstreamsNameForPidsGivesWayToOurs) {
  EXPECT_EQ(Parsed("[docker]\npids_limit = 4096").limits.pids, 4096U);
  EXPECT_EQ(Parsed("[limits]\npids = 99\n[docker]\npids_limit = 4096").limits.pids, 99U);
}

TEST(Config, UpstreamsLevelsAreUnderstood) {
  const std::pair<const char*, LogLevel> levels[] = {{"DEBUG", LogLevel::kDebug},
                                                     {"INFO", LogLevel::kInfo},
                                                     {"WARNING", LogLevel::kWarning},
                                                     {"ERROR", LogLevel::kError},
                                                     {"CRITICAL", LogLevel::kError}};
  for (const auto& [name, level] : levels) {
    EXPECT_EQ(Parsed("[log]\nlevel = \"" + std::string(name) + "\"").log_level, level) << name;
  }
}

TEST(Config, WhatIsNotKnownIsNamedOnce) {
  const auto loaded =
      ParseConfig("top = 1\n[server]\nport = 1\ncolour = 2\n[ingress.secure]\nx = 1\n", "f");
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->warnings.size(), 3U);
  std::string all;
  for (const auto& warning : loaded->warnings) all += warning + "\n";
  EXPECT_NE(all.find("f line 4: server.colour is not known"), std::string::npos) << all;
  EXPECT_NE(all.find("ingress.secure is not known"), std::string::npos) << all;
  EXPECT_NE(all.find("top is not known"), std::string::npos) << all;
}

// The file that upstream's init-config writes for Docker, with every possible member.
TEST(Config, AnOpenSandboxFileWorksAndSaysWhatHasNoEffect) {
  const auto loaded = ParseConfig(R"(
[server]
host = "127.0.0.1"
port = 8080
api_key = "your-secret-api-key-change-this"
max_sandbox_timeout_seconds = 86400
timeout_keep_alive = 30
limit_concurrency = 1024
backlog = 2048
thread_pool_size = 200
loop = "auto"
http = "auto"
timeout_graceful_shutdown = 5
[log]
level = "INFO"
file_enabled = true
file_path = "/var/log/opensandbox/server.log"
[runtime]
type = "docker"
execd_image = "opensandbox/execd:v1.0.19"
execd_run_as_init = false
[egress]
image = "opensandbox/egress:v1.0.12"
mode = "dns"
[docker]
network_mode = "bridge"
drop_capabilities = ["AUDIT_WRITE", "MKNOD"]
no_new_privileges = true
apparmor_profile = ""
pids_limit = 4096
seccomp_profile = ""
port_range_min = 40000
port_range_max = 60000
publish_host = "0.0.0.0"
sandbox_binds = []
[docker.sandbox_env]
LANG = "C.UTF-8"
[proxy]
resolve_internal = true
[otel]
enabled = false
[tenants]
provider = "file"
[ingress]
mode = "direct"
[storage]
allowed_host_paths = []
[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"
[renew_intent]
enabled = false
min_interval_seconds = 60
redis.enabled = false
[secure_runtime]
type = ""
docker_runtime = "runsc"
k8s_runtime_class = "kata-qemu"
[kubernetes]
namespace = "opensandbox"
kubeconfig_path = "~/.kube/config"
)",
                                  "f");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->config.limits.pids, 4096U);
  const char* foreign[] = {"server.backlog",
                           "server.thread_pool_size",
                           "server.loop",
                           "server.http",
                           "server.timeout_graceful_shutdown",
                           "log.file_enabled",
                           "log.file_path",
                           "runtime.type",
                           "runtime.execd_image",
                           "runtime.execd_run_as_init",
                           "egress",
                           "docker.network_mode",
                           "docker.drop_capabilities",
                           "docker.no_new_privileges",
                           "docker.apparmor_profile",
                           "docker.seccomp_profile",
                           "docker.port_range_min",
                           "docker.port_range_max",
                           "docker.publish_host",
                           "docker.sandbox_binds",
                           "docker.sandbox_env",
                           "proxy",
                           "store",
                           "renew_intent.redis",
                           "secure_runtime.docker_runtime",
                           "secure_runtime.k8s_runtime_class",
                           "kubernetes"};
  EXPECT_EQ(loaded->warnings.size(), std::size(foreign));
  for (const char* name : foreign) {
    size_t count = 0;
    for (const std::string& warning : loaded->warnings) {
      if (warning.find(": " + std::string(name) + " has no effect: ") != std::string::npos) ++count;
    }
    EXPECT_EQ(count, 1U) << name;
  }
}

TEST(Config, NoKeyIsForeignAndOursAtOnce) {
  for (const Key& key : Keys()) {
    EXPECT_EQ(WhyForeign(FullName(key)), nullptr) << FullName(key);
    EXPECT_EQ(WhyForeign(key.section), nullptr) << FullName(key);
  }
}

TEST(Config, ErrorsNameFileLineKeyAndValue) {
  const std::pair<const char*, const char*> bad[] = {
      {"[server]\nport = 70000", "f line 2: server.port '70000'"},
      {"[server]\nport = \"80\"", "server.port must be a whole number"},
      {"[server]\nhost = \"example.com\"", "server.host 'example.com'"},
      {"[server]\nhost = 3", "server.host must be a string"},
      {"[usage]\nkeep_days = 4000", "usage.keep_days '4000'"},
      {"[prices]\ncurrency = \"Euro\"", "prices.currency 'Euro'"},
      {"[prices]\ncpu_hour = \"-1\"", "prices.cpu_hour '-1'"},
      {"[prices]\ncpu_hour = \"1e3\"", "prices.cpu_hour '1e3'"},
      {"[prices]\nnetwork_gib = \".5\"", "prices.network_gib '.5'"},
      {"[server]\napi_key = \"short\"", "at least 8"},
      {"[server]\napi_key = \"with a space\"", "visible"},
      {"[server]\ninsecure_no_api_key = \"yes\"", "must be true or false"},
      {"[server]\neip = \"a/b\"", "server.eip 'a/b'"},
      {"[server]\nbase_path = \"atoll\"", "server.base_path 'atoll'"},
      {"[server]\nbase_path = \"/a/../b\"", "server.base_path"},
      {"[server]\nbase_path = \"/a?b\"", "server.base_path"},
      {"[server]\nmax_sandbox_timeout_seconds = 59", "60 or more"},
      {"[server]\ntimeout_keep_alive = 0", "server.timeout_keep_alive '0'"},
      {"[server]\nlimit_concurrency = -1", "server.limit_concurrency '-1'"},
      {"[storage]\ndata_dir = \"relative\"", "absolute"},
      {"[secure_runtime]\ntype = \"runc\"", "secure_runtime.type 'runc'"},
      {"[secure_runtime]\nallow = [\"runc\"]", "secure_runtime.allow 'runc'"},
      {"[secure_runtime]\nminimum = \"vm\"", "secure_runtime.minimum 'vm'"},
      {"[storage]\ndata_dir = \"/a/../b\"", "absolute"},
      {"[storage]\ndata_dir = \"/\"", "below the root"},
      {"[storage]\nallowed_host_paths = [\"/ok\", \"no\"]", "'no'"},
      {"[storage]\nallowed_host_paths = [\"/\"]", "below the root"},
      {"[storage]\nallowed_host_paths = [1]", "list of strings"},
      {"[storage]\nobject_stores = [\"main https://s3.example\"]", "names no bucket"},
      {"[storage]\nobject_stores = [\"main s3.example bucket=data\"]", "'s3.example'"},
      {"[runtime]\nuser = \"\"", "runtime.user"},
      {"[runtime]\nrun_dir = \"run\"", "runtime.run_dir"},
      {"[runtime]\npool_size = 1000000", "512"},
      {"[runtime]\naccess_token = 1", "true or false"},
      {"[runtime]\nstart_spawner = 1", "true or false"},
      {"[runtime]\nbuilds_at_once = 0", "from 1 to 64"},
      {"[runtime]\nparked_sandboxes = 1025", "1024"},
      {"[runtime]\nbuild_queue = 0", "runtime.build_queue '0'"},
      {"[runtime]\novercommit = -0.5", "runtime.overcommit '-0.5'"},
      {"[runtime]\novercommit = nan", "runtime.overcommit"},
      {"[runtime]\novercommit = inf", "runtime.overcommit"},
      {"[runtime]\novercommit = true", "must be a number, or a string"},
      {"[runtime]\nkeep_ended_seconds = -1", "runtime.keep_ended_seconds"},
      {"[images]\npull = [\"*.example/x\"]", "use a complete registry"},
      {"[images]\npull_auth = \"auth.json\"", "absolute"},
      {"[images]\npull_ca = \"ca.pem\"", "absolute"},
      {"[network]\ndns = [1]", "list of strings"},
      {"[network]\ndns = [\"dns.example.com\"]", "dns.example.com"},
      {"[limits]\ncpu = 0", "limits.cpu '0'"},
      {"[limits]\ncpu = \"lots\"", "limits.cpu 'lots'"},
      {"[limits]\nmemory = \"1Mi\"", "from 6Mi to 64Ti"},
      {"[limits]\nmemory = \"1Xi\"", "limits.memory '1Xi'"},
      {"[limits]\npids = 1", "limits.pids '1'"},
      {"[limits]\ndisk = \"-1\"", "limits.disk '-1'"},
      {"[limits]\nmax_sandboxes = 5000", "4096"},
      {"[docker]\npids_limit = 0", "docker.pids_limit '0'"},
      {"[logs]\nmax_bytes = 1", "from 64Ki"},
      {"[logs]\nkeep_after_removal_seconds = \"1h\"", "whole number"},
      {"[renew_intent]\nenabled = 1", "true or false"},
      {"[renew_intent]\nmin_interval_seconds = 0", "renew_intent.min_interval_seconds '0'"},
      {"[idle]\nafter_seconds = 31536001", "idle.after_seconds '31536001'"},
      {"[idle]\naction = \"kill\"", "pause or end"},
      {"[pause]\nmemory = \"drop\"", "keep or reclaim"},
      {"[pause]\nswap_kind = \"file\"", "auto, dm-crypt or zram"},
      {"[pause]\nswap_size = \"9Ti\"", "pause.swap_size"},
      {"[ingress]\nmode = \"proxy\"", "direct or gateway"},
      {"[ingress.gateway]\naddress = \"https://a.example\"", "without a scheme"},
      {"[ingress.gateway]\naddress = \"*.\"", "without a scheme"},
      {"[ingress.gateway.route]\nmode = \"path\"", "wildcard, uri or header"},
      {"[ingress.secure_access]\nactive_key = \"A\"", "active_key 'A'"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"ab\", key = \"AAAA\"}]", "'ab'"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"a\", key = \"A\"}]", "not base64"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"a\", key = \"\"}]", "not base64"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"a\"}]", "strings key_id key"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"a\", kei = \"AAAA\"}]", "strings key_id key"},
      {"[ingress.secure_access]\nkeys = [\"a:AAAA\"]", "array of tables"},
      {"[ingress.secure_access]\nkeys = [{key_id = \"a\", key = \"AAAA\"}, "
       "{key_id = \"a\", key = \"AAAB\"}]",
       "twice"},
      {"[otel]\nenabled = 1", "true or false"},
      {"[otel]\nendpoint = \"collector:4318\"", "must start with http:// or https://"},
      {"[otel]\nservice_name = \"\"", "1 to 255"},
      {"[otel]\nexport_interval_millis = 999", "otel.export_interval_millis '999'"},
      {"[tenants]\nprovider = \"ldap\"", "tenants.provider 'ldap': use file or http"},
      {"[tenants]\nfile = \"tenants.toml\"", "tenants.file 'tenants.toml'"},
      {"[tenants]\nendpoint = \"keys.example\"", "must start with http:// or https://"},
      {"[tenants]\nauth_header = \"a: b\"", "use the name of a header"},
      {"[tenants]\ntimeout_seconds = 0", "tenants.timeout_seconds '0'"},
      {"[tenants]\nadopt = \"Red\"", "tenants.adopt 'Red'"},
      {"[audit]\nenabled = \"true\"", "use auto, on or off"},
      {"[audit]\ndirectory = \"audit\"", "audit.directory 'audit'"},
      {"[audit]\nlevel = [\"exec=some\"]", "ACTION=LEVEL"},
      {"[audit]\nkeep_days = 100000", "audit.keep_days '100000'"},
      {"[audit]\nsinks = [\"kafka://x\"]", "use journald"},
      {"[audit]\nsinks = [\"http://logs.example/\"]", "without TLS"},
      {"[audit]\nsinks = [\"journald ca=x\"]", "use ca=/FILE"},
      {"[audit]\non_failure = \"ignore\"", "use refuse or continue"},
      {"[history]\nkeep = \"a week\"", "use a duration"},
      {"[history]\nmax_bytes = \"1Ki\"", "history.max_bytes '1Ki'"},
      {"[log]\nlevel = \"loud\"", "loud"},
      {"[log]\nformat = \"xml\"", "use text or json"},
      {"[metrics]\nlisten = \"9464\"", "metrics.listen '9464'"},
      {"[metrics]\nlisten = \"127.0.0.1:0\"", "use ADDRESS:PORT"},
      {"[metrics]\nlisten = \"localhost:9464\"", "use ADDRESS:PORT"},
      {"[metrics]\nlisten = \"::1:9464\"", "use ADDRESS:PORT"},
      {"[metrics]\nlisten = \"[127.0.0.1]:9464\"", "use ADDRESS:PORT"},
      {"[server\nport = 1", "f line 1"},
      {"a = 1\na = 2", "f line 2"},
  };
  for (const auto& [text, words] : bad) {
    const std::string said = ErrorOf(text);
    EXPECT_NE(said.find(words), std::string::npos) << said << " lacks " << words;
  }
}

TEST(Config, AGatewayIsWholeOrAbsent) {
  const auto check = [](bool gateway, const char* address, const char* route) {
    Config config;
    config.gateway = gateway;
    config.gateway_address = address;
    config.gateway_route = route;
    const Status status = CheckConfig(config);
    return status ? std::string() : status.error().message();
  };
  EXPECT_EQ(check(false, "", ""), "");
  EXPECT_EQ(check(true, "*.example.org", "wildcard"), "");
  EXPECT_EQ(check(true, "example.org:8443", "uri"), "");
  EXPECT_EQ(check(true, "10.0.0.1", "header"), "");
  EXPECT_NE(check(false, "example.org", "uri").find("ingress.mode is direct"), std::string::npos);
  EXPECT_NE(check(true, "", "uri").find("it needs"), std::string::npos);
  EXPECT_NE(check(true, "example.org", "").find("it needs"), std::string::npos);
  EXPECT_NE(check(true, "example.org", "wildcard").find("does not fit"), std::string::npos);
  EXPECT_NE(check(true, "*.example.org", "header").find("does not fit"), std::string::npos);
}

TEST(Config, RecordingNeedsAnAuditLog) {
  EXPECT_FALSE(CheckConfig(Parsed("[audit]\nrecord_pty = \"output\"\n")));
  EXPECT_FALSE(CheckConfig(Parsed("[audit]\nenabled = \"off\"\nrecord_pty = \"input\"\n")));
  EXPECT_TRUE(CheckConfig(Parsed("[audit]\nenabled = \"on\"\nrecord_pty = \"output\"\n")));
  EXPECT_TRUE(
      CheckConfig(Parsed("[tenants]\nprovider = \"file\"\n[audit]\nrecord_pty = \"input\"\n")));
  EXPECT_FALSE(ParseConfig("[audit]\nrecord_pty = \"all\"\n", "f"));
}

TEST(Config, TenantsExcludeTheOneKey) {
  const auto check = [](const char* text) {
    const Status status = CheckConfig(Parsed(text));
    return status ? std::string() : status.error().message();
  };
  EXPECT_EQ(check("[tenants]\n"), "");
  EXPECT_EQ(check("[tenants]\nprovider = \"file\"\n"), "");
  EXPECT_EQ(check("[tenants]\nprovider = \"http\"\nendpoint = \"http://k.example\"\n"), "");
  for (const auto& [text, words] :
       {std::pair("[server]\napi_key = \"0123456789\"\n[tenants]\nprovider = \"file\"\n",
                  "server.api_key and tenants.provider are both set"),
        {"[server]\ninsecure_no_api_key = true\n[tenants]\nprovider = \"file\"\n",
         "insecure_no_api_key and tenants.provider are both set"},
        {"[tenants]\nadopt = \"red\"\n", "tenants.provider is not set"},
        {"[tenants]\nprovider = \"http\"\n", "needs tenants.endpoint"},
        {"[tenants]\nprovider = \"file\"\nendpoint = \"http://k.example\"\n", "choose one"},
        {"[tenants]\nprovider = \"file\"\nauth_header = \"X-A\"\n", "belong together"}}) {
    EXPECT_NE(check(text).find(words), std::string::npos) << check(text) << " lacks " << words;
  }
}

TEST(Config, UpstreamsVariableNamesTheTenantsFile) {
  Loaded loaded;
  ASSERT_TRUE(ApplyEnvironment({"SANDBOX_TENANTS_CONFIG_PATH=/srv/t.toml"}, &loaded));
  EXPECT_EQ(loaded.config.tenants_file, "/srv/t.toml");
}

TEST(Config, ASecretIsInNoError) {
  for (const char* text : {"[tenants]\nauth_token = \"secret\\u00e9\"",
                           "[server]\napi_key = \"secret word\"", "[server]\napi_key = \"s3cret!\"",
                           "[ingress.secure_access]\nkeys = [{key_id = \"a\", key = \"secret!\"}]",
                           "[ingress.secure_access]\nkeys = [{key_id = \"\", key = \"secret\"}]"}) {
    const std::string said = ErrorOf(text);
    EXPECT_EQ(said.find("ecret"), std::string::npos) << said;
  }
}

TEST(Config, NoKeyOnlyOnLoopback) {
  Config config;
  config.insecure_no_api_key = true;
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1"}) {
    config.host = host;
    EXPECT_TRUE(CheckConfig(config)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1"}) {
    config.host = host;
    EXPECT_FALSE(CheckConfig(config)) << host;
  }
  config.host = "127.0.0.1";
  config.api_key = "0123456789";
  EXPECT_FALSE(CheckConfig(config));
}

TEST(Config, ARunDirectoryThatSocketsDoNotFitInIsRefused) {
  Config config;
  config.run_dir = "/" + std::string(54, 'r');
  EXPECT_TRUE(CheckConfig(config));
  config.run_dir += "r";
  const auto checked = CheckConfig(config);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("at most 55"), std::string::npos)
      << checked.error().message();
}

TEST(Config, MemoryIsReclaimedToSomewhere) {
  Config config;
  config.pause_reclaims = true;
  EXPECT_FALSE(CheckConfig(config));
  config.swap_bytes = 1 << 20;
  EXPECT_TRUE(CheckConfig(config));
  for (const uint64_t size : {uint64_t{4096}, (uint64_t{1} << 20) + 1}) {
    config.swap_bytes = size;
    EXPECT_FALSE(CheckConfig(config)) << size;
  }
}

TEST(Config, TheSigningKeyInUseIsOneOfTheKeys) {
  Config config;
  config.active_signing_key = 'a';
  EXPECT_FALSE(CheckConfig(config));
  config.signing_keys = {{'a', "secret"}};
  EXPECT_TRUE(CheckConfig(config));
  config.active_signing_key = 0;
  EXPECT_FALSE(CheckConfig(config));
}

TEST(Config, EveryKeyHasAFlagAndAVariableOfItsOwn) {
  std::set<std::string> flags;
  std::set<std::string> variables;
  for (const Key& key : Keys()) {
    flags.insert(FlagOf(key));
    variables.insert(EnvironmentOf(key));
  }
  EXPECT_EQ(flags.size(), Keys().size());
  EXPECT_EQ(variables.size(), Keys().size());
  for (const char* flag :
       {"--server-host", "--server-port", "--server-api-key", "--storage-data-dir",
        "--runtime-run-dir", "--network-dns", "--ingress-secure-access-active-key"}) {
    EXPECT_TRUE(flags.contains(flag)) << flag;
  }
  EXPECT_TRUE(variables.contains("ATOLL_INGRESS_SECURE_ACCESS_ACTIVE_KEY"));
}

TEST(Config, WhatAKeySaysOfItselfCanBeSetAgain) {
  Config config = Parsed(R"(
[server]
api_key = "0123456789"
[limits]
cpu = 1.25
memory = 10000000
[runtime]
overcommit = 0.1
[ingress.secure_access]
active_key = "a"
keys = [{key_id = "a", key = "AAEC/w=="}]
[network]
dns = ["9.9.9.9", "[::1]:53"]
)");
  for (const Key& key : Keys()) {
    if (!key.get) continue;
    const auto values = key.get(config);
    Config fresh;
    ASSERT_TRUE(key.set(values, &fresh)) << FullName(key);
    EXPECT_EQ(key.get(fresh), values) << FullName(key);
  }
}

TEST(ConfigText, TheExampleHoldsEveryKeyAtItsDefault) {
  const std::string example = ExampleConfig();
  EXPECT_EQ(EffectiveConfig(Parsed(example)), EffectiveConfig(Config()));
  // Parses the file again with every key set.
  std::string active;
  size_t keys = 0;
  for (size_t at = 0; at < example.size();) {
    const size_t end = example.find('\n', at);
    std::string line = example.substr(at, end - at);
    EXPECT_LE(line.size(), 100U) << line;
    if (line.starts_with("#") && !line.starts_with("# ")) {
      line.erase(0, 1);
      ++keys;
    }
    active += line + "\n";
    at = end + 1;
  }
  const auto loaded = ParseConfig(active, "f");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_TRUE(loaded->warnings.empty());
  EXPECT_EQ(EffectiveConfig(loaded->config), EffectiveConfig(Config()));
  EXPECT_EQ(keys, Keys().size() - 1);  // docker.pids_limit is an alias
}

TEST(ConfigText, WhatIsInForceCanBeReadAgainAndHoldsNoSecret) {
  const Config config = Parsed(R"(
[server]
api_key = "hidden-hidden"
eip = "a.example"
[storage]
allowed_host_paths = ["/with \"quotes\" and \\"]
[ingress.secure_access]
active_key = "a"
keys = [{key_id = "a", key = "aGlkZGVu"}]
)");
  const std::string text = EffectiveConfig(config);
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
  EXPECT_EQ(text.find("aGlkZGVu"), std::string::npos) << text;
  EXPECT_NE(text.find("# api_key is set"), std::string::npos);
  EXPECT_NE(text.find("# keys is set"), std::string::npos);
  const Config again = Parsed(text);
  EXPECT_EQ(again.public_host, "a.example");
  EXPECT_EQ(again.allowed_host_paths, config.allowed_host_paths);
}

}  // namespace
}  // namespace atl::daemon
