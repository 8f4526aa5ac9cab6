#include "runtime/daemon/config_keys.h"

#include <algorithm>
#include <charconv>

#include "cgroup/limits_text.h"
#include "images/allowed.h"
#include "images/registry/reference.h"
#include "runtime/base/base64.h"
#include "runtime/base/duration.h"
#include "runtime/daemon/config_values.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/tenants/audit/level.h"
#include "runtime/tenants/sinks/sink.h"
#include "runtime/tenants/tenants_file.h"
#include "runtime/wire/swap.h"

namespace atl::daemon {
namespace {

using Kind = Key::Kind;
using Values = std::vector<std::string>;

constexpr uint64_t kMaxSeconds = 10ULL * 365 * 24 * 3600;

// ---- kinds of keys

template <typename T>
Key NumberKey(const char* section, const char* name, T Config::*member, uint64_t min, uint64_t max,
              const char* help) {
  return {section,
          name,
          Kind::kNumber,
          help,
          [=](const Values& v, Config* c) -> Status {
            ATOLL_ASSIGN(const uint64_t number, ParseNumber(v[0], min, max));
            c->*member = static_cast<T>(number);
            return {};
          },
          [=](const Config& c) { return Values{std::to_string(c.*member)}; }};
}

Key BoolKey(const char* section, const char* name, bool Config::*member, const char* help) {
  return {section,
          name,
          Kind::kBool,
          help,
          [=](const Values& v, Config* c) -> Status {
            if (v[0] != "true" && v[0] != "false") return Fail(BadValue(v[0], "use true or false"));
            c->*member = v[0] == "true";
            return {};
          },
          [=](const Config& c) { return Values{c.*member ? "true" : "false"}; }};
}

Key TextKey(const char* section, const char* name, std::string Config::*member,
            Result<std::string> (*check)(const std::string&), const char* help) {
  return {section,
          name,
          Kind::kText,
          help,
          [=](const Values& v, Config* c) -> Status {
            ATOLL_ASSIGN(c->*member, check(v[0]));
            return {};
          },
          [=](const Config& c) { return Values{c.*member}; }};
}

Key ListKey(const char* section, const char* name, Values Config::*member,
            Result<std::string> (*check)(const std::string&), const char* help) {
  return {section,
          name,
          Kind::kList,
          help,
          [=](const Values& v, Config* c) -> Status {
            Values checked;
            for (const std::string& text : v) {
              ATOLL_ASSIGN(checked.emplace_back(), check(text));
            }
            c->*member = std::move(checked);
            return {};
          },
          [=](const Config& c) { return c.*member; }};
}

Key BytesKey(const char* section, const char* name, uint64_t Config::*member, uint64_t min,
             uint64_t max, const char* help) {
  return {section,
          name,
          Kind::kQuantity,
          help,
          [=](const Values& v, Config* c) -> Status {
            ATOLL_ASSIGN(c->*member, ParseSize(v[0], min, max));
            return {};
          },
          [=](const Config& c) { return Values{cgroup::BytesText(c.*member)}; }};
}

// Makes the key of a limit's default.
Key LimitKey(const cgroup::LimitField& field) {
  const bool optional = field.need == cgroup::LimitNeed::kOptional;
  return {"limits",
          field.name,
          field.kind == cgroup::LimitKind::kCount ? Kind::kNumber : Kind::kQuantity,
          std::string(field.what) + " of a sandbox that requests none" +
              (optional ? "; 0: no limit" : ""),
          [=](const Values& v, Config* c) -> Status {
            if (optional && v[0] == "0") {
              c->limits.*field.value = 0;
              return {};
            }
            ATOLL_ASSIGN(c->limits.*field.value, cgroup::ParseLimit(field, v[0]));
            return {};
          },
          [=](const Config& c) { return Values{cgroup::LimitText(field, c.limits.*field.value)}; }};
}

Key Live(Key key) {
  key.live = true;
  return key;
}

Key Secret(Key key) {
  key.secret = true;
  return key;
}

// ---- keys with their own rules

Status SetIngressMode(const Values& v, Config* c) {
  if (v[0] != "direct" && v[0] != "gateway") return Fail(BadValue(v[0], "use direct or gateway"));
  c->gateway = v[0] == "gateway";
  return {};
}

Status SetIdleAction(const Values& v, Config* c) {
  if (v[0] != "pause" && v[0] != "end") return Fail(BadValue(v[0], "use pause or end"));
  c->idle_ends = v[0] == "end";
  return {};
}

Status SetPauseMemory(const Values& v, Config* c) {
  if (v[0] != "keep" && v[0] != "reclaim") return Fail(BadValue(v[0], "use keep or reclaim"));
  c->pause_reclaims = v[0] == "reclaim";
  return {};
}

Status SetSwapKind(const Values& v, Config* c) {
  if (v[0] != "auto" && v[0] != "dm-crypt" && v[0] != "zram") {
    return Fail(BadValue(v[0], "use auto, dm-crypt or zram"));
  }
  c->swap_kind = v[0];
  return {};
}

Status SetVmAccel(const Values& v, Config* c) {
  if (v[0] != "auto" && v[0] != "kvm" && v[0] != "tcg") {
    return Fail(BadValue(v[0], "use auto, kvm or tcg"));
  }
  c->vm_accel = v[0];
  return {};
}

Status SetLevel(const Values& v, Config* c) {
  // Upstream's files write levels in capitals, and have more names.
  std::string name = v[0];
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  if (name == "warn") name = "warning";
  if (name == "critical" || name == "fatal") name = "error";
  ATOLL_ASSIGN(c->log_level, ParseLogLevel(name));
  return {};
}

Status SetFormat(const Values& v, Config* c) {
  ATOLL_ASSIGN(c->log_format, ParseLogFormat(v[0]));
  return {};
}

Values GetLevel(const Config& c) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  return {kNames[static_cast<size_t>(c.log_level)]};
}

Status SetTimeout(const Values& v, Config* c) {
  ATOLL_ASSIGN(c->max_sandbox_timeout, ParseNumber(v[0], 0, kMaxSeconds));
  // The shortest timeout of a create.
  if (c->max_sandbox_timeout != 0 && c->max_sandbox_timeout < 60) {
    return Fail(BadValue(v[0], "use 60 or more, or 0 for no limit"));
  }
  return {};
}

Status SetOvercommit(const Values& v, Config* c) {
  double factor = 0;
  const char* end = v[0].data() + v[0].size();
  const auto [rest, error] = std::from_chars(v[0].data(), end, factor);
  if (error != std::errc() || rest != end || !(factor >= 0) || factor > 1000) {
    return Fail(BadValue(v[0], "use a factor from 0 (no check) to 1000"));
  }
  c->overcommit = factor;
  return {};
}

Values GetOvercommit(const Config& c) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, c.overcommit).ptr;
  return {std::string(digits, end)};
}

bool IsSigningKeyId(std::string_view id) {
  return id.size() == 1 && ((id[0] >= '0' && id[0] <= '9') || (id[0] >= 'a' && id[0] <= 'z'));
}

Status SetSigningKeys(const Values& rows, Config* c) {
  std::vector<SigningKey> keys;
  for (const std::string& row : rows) {
    const size_t colon = row.find(':');
    const std::string id = row.substr(0, colon);
    if (colon == std::string::npos || !IsSigningKeyId(id)) {
      return Fail(BadValue(id, "a key_id is one character of 0-9 and a-z"));
    }
    for (const SigningKey& other : keys) {
      if (other.id == id[0]) return Fail(BadValue(id, "this key_id occurs twice"));
    }
    // Errors do not quote the text, because it is a secret.
    auto secret = DecodeBase64(std::string_view(row).substr(colon + 1));
    if (!secret || secret->empty()) {
      return Fail(Code::kInvalidArgument, "the key of key_id '" + id +
                                              "' is not base64 of at least one byte; make one with "
                                              "'openssl rand -base64 32'");
    }
    keys.push_back({id[0], std::move(*secret)});
  }
  c->signing_keys = std::move(keys);
  return {};
}

Values GetSigningKeys(const Config& c) {
  Values rows;
  for (const SigningKey& key : c.signing_keys) {
    rows.push_back(std::string(1, key.id) + ":" + EncodeBase64(key.secret));
  }
  return rows;
}

Status SetActiveKey(const Values& v, Config* c) {
  if (!v[0].empty() && !IsSigningKeyId(v[0])) {
    return Fail(BadValue(v[0], "use the key_id of one of ingress.secure_access.keys"));
  }
  c->active_signing_key = v[0].empty() ? '\0' : v[0][0];
  return {};
}

Status SetAudit(const Values& v, Config* c) {
  if (v[0] != "auto" && v[0] != "on" && v[0] != "off") {
    return Fail(BadValue(v[0], "use auto, on or off"));
  }
  c->audit_enabled = v[0];
  return {};
}

Status SetAuditLevels(const Values& v, Config* c) {
  ATOLL_TRY(audit::Levels::Parse(v));
  c->audit_levels = v;
  return {};
}

Status SetAuditSinks(const Values& v, Config* c) {
  for (const std::string& text : v) ATOLL_TRY(sinks::ParseSink(text));
  c->audit_sinks = v;
  return {};
}

Status SetOnFailure(const Values& v, Config* c) {
  if (v[0] != "refuse" && v[0] != "continue") return Fail(BadValue(v[0], "use refuse or continue"));
  c->audit_refuses = v[0] == "refuse";
  return {};
}

Status SetRecordPty(const Values& v, Config* c) {
  if (v[0] != "off" && v[0] != "output" && v[0] != "input") {
    return Fail(BadValue(v[0], "use off, output or input"));
  }
  c->record_pty = v[0];
  return {};
}

// ---- the table

void AddServerKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("server", "host", &Config::host, CheckHost, "address to listen on"),
       NumberKey("server", "port", &Config::port, 0, 65535, "port to listen on; 0: any free port"),
       Live(Secret(TextKey("server", "api_key", &Config::api_key, CheckApiKey,
                           "API key of clients; without one, the first start generates a key "
                           "(other users of this host can see a flag: prefer the file)"))),
       BoolKey("server", "insecure_no_api_key", &Config::insecure_no_api_key,
               "require no API key; only allowed with a loopback address"),
       TextKey("server", "eip", &Config::public_host, CheckPublicHost,
               "host name or address in endpoints; empty: that of the request"),
       TextKey("server", "base_path", &Config::base_path, CheckBasePath,
               "prefix of every endpoint's path, for a proxy in front that removes it"),
       {"server", "max_sandbox_timeout_seconds", Kind::kNumber,
        "longest timeout that a create may request; 0: unlimited", SetTimeout,
        [](const Config& c) { return Values{std::to_string(c.max_sandbox_timeout)}; }},
       Live(TextKey("server", "tls_cert", &Config::tls_cert, CheckOptionalPath,
                    "PEM file with the TLS certificate, followed by its chain; connections from "
                    "this host may still do without TLS; empty: no TLS")),
       Live(TextKey("server", "tls_key", &Config::tls_key, CheckOptionalPath,
                    "PEM file with the certificate's private key, without a passphrase; a reload "
                    "reads both files again, as the daemon's user")),
       NumberKey("server", "timeout_keep_alive", &Config::keep_alive, 1, 86400,
                 "seconds for which an idle connection is kept"),
       Live(NumberKey("server", "limit_concurrency", &Config::limit_concurrency, 0, 1000000,
                      "most requests at a time, beyond which clients get 503; streams into "
                      "sandboxes do not count; 0: unlimited"))});
}

void AddRuntimeKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("storage", "data_dir", &Config::data_dir, CheckAbsolutePath,
               "directory of images, sandboxes' files and the daemon's state"),
       BytesKey("storage", "volume_default_size", &Config::volume_default_bytes, 0,
                cgroup::kMaxLimitBytes,
                "size limit of a named volume that was made without a size, if the store has "
                "quotas; 0: no limit"),
       BoolKey("storage", "ignore_disk_limits", &Config::ignore_disk_limits,
               "where the store has no quotas: let a request for a disk limit pass, and give its "
               "sandbox none, in place of refusing it"),
       ListKey("storage", "allowed_host_paths", &Config::allowed_host_paths, CheckHostPath,
               "directories of the host that sandboxes may mount, including everything below them; "
               "empty: none"),
       ListKey("storage", "object_stores", &Config::object_stores, CheckObjectStore,
               "object stores (S3) whose buckets sandboxes may mount: NAME https://ENDPOINT "
               "bucket=NAME (once for each; * for all) [credentials=/FILE, readable only by root, "
               "with KEY:SECRET, for requests without credentials] [region=NAME] [style=host, if "
               "the bucket is part of the host name] [ca=/FILE]; empty: none"),
       TextKey("runtime", "run_dir", &Config::run_dir, CheckAbsolutePath, "sockets"),
       TextKey("runtime", "user", &Config::user, CheckUser, "user that the daemon runs as"),
       NumberKey("runtime", "pool_size", &Config::pool_size, 0, 512, "network slots kept prepared"),
       NumberKey("runtime", "parked_sandboxes", &Config::parked_sandboxes, 0, 1024,
                 "most sandboxes that all pools and templates together keep parked; each takes a "
                 "slot and some 0.9 MiB (a template's also the memory of its programs) and counts "
                 "towards max_sandboxes"),
       NumberKey("runtime", "automatic_pools", &Config::automatic_pools, 0, 256,
                 "number of automatic pools: for each of the images (with limits) used last by "
                 "creates, two sandboxes are kept parked until ten minutes pass without such a "
                 "create; 0: only pools made by clients"),
       BoolKey("runtime", "access_token", &Config::access_token,
               "whether execd of a new sandbox requires the token of its endpoint; false is for "
               "clients that cannot send one"),
       BoolKey("runtime", "start_spawner", &Config::start_spawner,
               "whether the daemon starts a spawner if none answers; false in the systemd unit, "
               "because the spawner has its own unit"),
       NumberKey("runtime", "builds_at_once", &Config::builds_at_once, 1, 64,
                 "sandboxes built at a time; more than two only slow each other down"),
       NumberKey(
           "runtime", "build_queue", &Config::build_queue, 1, 100000,
           "most creates that wait for their turn, beyond which clients are told to retry later"),
       {"runtime", "overcommit", Kind::kQuantity,
        "overcommit factor: the limits of all sandboxes and their buckets together may be this "
        "many times the host's memory and process numbers; 0: only what is really free counts",
        SetOvercommit, GetOvercommit},
       NumberKey("runtime", "keep_ended_seconds", &Config::keep_ended_seconds, 0, kMaxSeconds,
                 "how long an ended sandbox without a deadline can still be read; 0: until it is "
                 "deleted")});
}

void AddIsolationKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("secure_runtime", "type", &Config::isolation, CheckIsolation,
               "isolation of a create that asks for none: namespace, gvisor or microvm (kata, "
               "firecracker); the daemon refuses to start where it cannot build that; empty: "
               "namespace"),
       ListKey("secure_runtime", "allow", &Config::allowed_tiers, CheckIsolation,
               "isolation that a create may ask for (extension isolation); empty: any that this "
               "host has"),
       TextKey("secure_runtime", "minimum", &Config::minimum_isolation, CheckIsolation,
               "weakest isolation that any sandbox may have; empty: secure_runtime.type"),
       TextKey("secure_runtime", "runsc", &Config::runsc, CheckOptionalPath,
               "gVisor's program, a file that only root can write, for sandboxes with isolation "
               "gvisor; read when the spawner starts; empty: this host has no gVisor"),
       TextKey(
           "secure_runtime", "vm_dir", &Config::vm_dir, CheckOptionalPath,
           "directory that 'atoll vm prepare' has written, for sandboxes with isolation "
           "microvm; read when the spawner starts; empty: vm in storage.data_dir, and this host "
           "has no virtual machines if that is not there"),
       {"secure_runtime", "vm_accel", Kind::kText,
        "who runs the instructions of virtual machines: kvm, the processor; tcg, QEMU's emulation; "
        "auto, the processor, and emulation where secure_runtime.vm_allow_emulation allows it",
        SetVmAccel, [](const Config& c) { return Values{c.vm_accel}; }},
       BoolKey("secure_runtime", "vm_allow_emulation", &Config::vm_allow_emulation,
               "whether virtual machines may be emulated where the host has no KVM; programs are "
               "five to twenty times slower then"),
       NumberKey("secure_runtime", "vm_parked", &Config::vm_parked, 0, 64,
                 "virtual machines kept booted for creates with the memory and processors of "
                 "limits; their memory counts as that of sandboxes; needs secure_runtime.type "
                 "microvm")});
}

void AddGpuKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("gpu", "kind", &Config::gpu_kind, CheckDeviceKind,
               "kind of the devices that sandboxes may ask for as GPUs, in the terms of the "
               "Container Device Interface, such as nvidia.com/gpu; empty: none"),
       BoolKey("gpu", "shared", &Config::gpu_shared,
               "whether several sandboxes may have one GPU, with nothing that divides its memory "
               "and time between them"),
       ListKey("gpu", "spec_dirs", &Config::gpu_spec_dirs, CheckAbsolutePath,
               "directories with descriptions of these devices, as JSON files that only root can "
               "write; read when the spawner starts")});
}

void AddImageKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {ListKey("images", "allowed", &Config::allowed_images, images::CheckAllowedRule,
               "images that sandboxes may use: NAME:TAG, * for any characters, @sha256:… for a "
               "single digest; empty: all imported images"),
       ListKey("images", "pull", &Config::pull_images, images::registry::CheckPullRule,
               "missing images that a create may fetch, with their complete registry: "
               "registry.example/team/*, or * for all of docker.io; empty: none"),
       TextKey(
           "images", "pull_auth", &Config::pull_auth_file, CheckOptionalPath,
           "credentials for these registries: a file in the format of 'skopeo login --authfile', "
           "readable only by the daemon's user (0600) or group (0640); empty: anonymous"),
       TextKey("images", "pull_ca", &Config::pull_ca, CheckOptionalPath,
               "PEM file of authorities that sign the registries' certificates; empty: those that "
               "the host trusts")});
}

void AddNetworkKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {ListKey(
           "network", "dns", &Config::dns, CheckResolver,
           "upstream resolvers of sandboxes, as address or address:port; empty: those of the host"),
       BoolKey(
           "network", "deny_unless_asked", &Config::deny_unless_asked,
           "whether a sandbox without a networkPolicy may reach nothing, instead of everything"),
       ListKey("network", "deny_always", &Config::deny_always, CheckTarget,
               "names, wildcards and prefixes that no sandbox may reach, whatever its policy"),
       ListKey("network", "allow_always", &Config::allow_always, CheckTarget,
               "names, wildcards and prefixes that every sandbox with a policy may reach, whatever "
               "its policy"),
       ListKey("network", "private", &Config::private_networks, CheckPrefix,
               "addresses and prefixes that a sandbox reaches only if its policy names them"),
       BoolKey("network", "allow_unnamed", &Config::allow_unnamed,
               "whether TLS without a server name, or with an encrypted one, may pass under "
               "policies that decide by name"),
       NumberKey("network", "max_connections", &Config::max_connections, 1, 1'000'000,
                 "most connections of one sandbox at a time"),
       TextKey("network", "denial_webhook", &Config::denial_webhook, CheckOptionalUrl,
               "http:// or https:// URL that receives denials by POST; empty: none")});
}

void AddLimitKeys(std::vector<Key>* keys) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.value == &cgroup::Limits::pids) {
      // Placed before limits.pids, which overrides it.
      Key docker = Live(LimitKey(field));
      docker.section = "docker";
      docker.name = "pids_limit";
      docker.help = "another name for limits.pids";
      docker.get = nullptr;
      keys->push_back(docker);
    }
    keys->push_back(Live(LimitKey(field)));
  }
  keys->push_back(NumberKey("limits", "max_sandboxes", &Config::max_sandboxes, 0, 4096,
                            "most sandboxes at a time, beyond which creates are refused; 0: as "
                            "many as there are addresses"));
}

Result<std::string> CheckCurrency(const std::string& text) {
  const bool fits = text.size() == 3 && std::all_of(text.begin(), text.end(),
                                                    [](char c) { return c >= 'A' && c <= 'Z'; });
  if (text.empty() || fits) return text;
  return Fail(BadValue(text, "use a code of ISO 4217 such as EUR"));
}

Result<std::string> CheckPrice(const std::string& text) {
  const size_t point = std::min(text.find('.'), text.size());
  const auto digits = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::string_view rest = std::string_view(text).substr(std::min(point + 1, text.size()));
  if (text.size() <= 16 && point > 0 && digits(std::string_view(text).substr(0, point)) &&
      digits(rest)) {
    return text;
  }
  return Fail(BadValue(text, "use a decimal number such as \"0.04\""));
}

void AddFeatureKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {NumberKey("snapshots", "max_count", &Config::max_snapshots, 0, 100000,
                 "most snapshots at a time, in whatever state"),
       BytesKey("snapshots", "max_bytes", &Config::max_snapshot_bytes, 0, cgroup::kMaxLimitBytes,
                "size limit of all snapshots together; 0: what the store has, minus a twentieth, "
                "at most 1 GiB, which is left to running sandboxes"),
       BytesKey("logs", "max_bytes", &Config::log_max_bytes, 64 << 10, 1ULL << 30,
                "how much output of a sandbox's entrypoint is kept"),
       NumberKey("logs", "keep_after_removal_seconds", &Config::log_keep_after_removal, 0,
                 kMaxSeconds,
                 "how long a sandbox's own route serves the output after the removal, as long as "
                 "the history has it"),
       NumberKey("usage", "keep_days", &Config::usage_keep_days, 0, 3660,
                 "turns metering on: how long the ledger keeps what sandboxes have used (GET "
                 "/v1/usage); 0: nothing is metered"),
       TextKey("prices", "currency", &Config::prices_currency, CheckCurrency,
               "currency of the prices, such as EUR; without one, no costs are told"),
       TextKey("prices", "cpu_hour", &Config::price_cpu_hour, CheckPrice,
               "price of an hour of processor time that was used"),
       TextKey("prices", "cpu_reserved_hour", &Config::price_cpu_reserved_hour, CheckPrice,
               "price of an hour of a processor that a limit held"),
       TextKey("prices", "memory_gib_hour", &Config::price_memory_gib_hour, CheckPrice,
               "price of a GiB of memory that was used for an hour"),
       TextKey("prices", "memory_reserved_gib_hour", &Config::price_memory_reserved_gib_hour,
               CheckPrice, "price of a GiB of memory that a limit held for an hour"),
       TextKey("prices", "disk_gib_hour", &Config::price_disk_gib_hour, CheckPrice,
               "price of a GiB on the disk for an hour, where the store has project quotas"),
       TextKey("prices", "network_gib", &Config::price_network_gib, CheckPrice,
               "price of a GiB that a sandbox received or sent"),
       TextKey("prices", "snapshots_gib_hour", &Config::price_snapshots_gib_hour, CheckPrice,
               "price of a GiB of snapshots that was kept for an hour"),
       TextKey("prices", "parked_hour", &Config::price_parked_hour, CheckPrice,
               "price of an hour that a member of a template waited for its claim"),
       BoolKey("renew_intent", "enabled", &Config::renew_on_access,
               "whether accesses renew the deadline of a sandbox whose create asked for it "
               "(extension access.renew.extend.seconds)"),
       NumberKey("renew_intent", "min_interval_seconds", &Config::renew_min_interval, 1, 86400,
                 "least seconds between two such renewals"),
       NumberKey("idle", "after_seconds", &Config::idle_after, 0, sandbox::kMaxIdleSeconds,
                 "idle time, without requests, streams or CPU use, after which idle.action "
                 "applies; 0: never. A create can override it (extension idle.after)"),
       {"idle", "action", Kind::kText,
        "what happens to an idle sandbox: pause, until the next request resumes it, or end "
        "(extension idle.action)",
        SetIdleAction, [](const Config& c) { return Values{c.idle_ends ? "end" : "pause"}; }},
       {"pause", "memory", Kind::kText,
        "what happens to the memory of a paused sandbox, unless its create says otherwise "
        "(extension pause.memory): keep, or reclaim, which moves it to Atoll's own swap area until "
        "it is resumed",
        SetPauseMemory,
        [](const Config& c) { return Values{c.pause_reclaims ? "reclaim" : "keep"}; }},
       BytesKey("pause", "swap_size", &Config::swap_bytes, 0, wire::kMostSwapBytes,
                "size of the swap area for paused sandboxes, which exists while a sandbox uses it; "
                "0: no area, and all keep their memory"),
       {"pause", "swap_kind", Kind::kText,
        "kind of the swap area: dm-crypt, a file in storage.data_dir, encrypted with a key that is "
        "never stored; zram, compressed memory; auto, the first of these that the kernel supports",
        SetSwapKind, [](const Config& c) { return Values{c.swap_kind}; }},
       {"ingress", "mode", Kind::kText,
        "form of endpoints: direct, a path of this server, or gateway, see ingress.gateway",
        SetIngressMode, [](const Config& c) { return Values{c.gateway ? "gateway" : "direct"}; }},
       TextKey("ingress.gateway", "address", &Config::gateway_address, CheckGatewayAddress,
               "name by which clients reach this server's port; for the route mode wildcard, such "
               "as *.sandboxes.example.org"),
       TextKey("ingress.gateway.route", "mode", &Config::gateway_route, CheckRouteMode,
               "wildcard: {id}-{port}.DOMAIN, with a browser origin for each port; uri: "
               "ADDRESS/{id}/{port}; header: OpenSandbox-Ingress-To"),
       {"ingress.secure_access", "active_key", Kind::kText,
        "key_id of the key that signs new routes", SetActiveKey,
        [](const Config& c) {
          return Values{c.active_signing_key == 0 ? "" : std::string(1, c.active_signing_key)};
        }},
       {"ingress.secure_access",
        "keys",
        Kind::kRows,
        "keys that verify signed routes: key_id, one of 0-9 and a-z, and key, base64",
        SetSigningKeys,
        GetSigningKeys,
        false,
        true,
        {"key_id", "key"}},
       BoolKey("ingress.secure_access", "short_signatures", &Config::short_signatures,
               "whether signed routes use OpenSandbox's 32-bit signature, for gateways and "
               "programs that sign or verify routes themselves; otherwise 56 bits, and shorter "
               "signatures are refused"),
       BoolKey("otel", "enabled", &Config::otel_enabled,
               "whether metrics about the time of requests and creates are sent to an "
               "OpenTelemetry collector (OTLP over HTTP)"),
       TextKey("otel", "endpoint", &Config::otel_endpoint, CheckOptionalUrl,
               "URL of the collector's metrics, such as http://localhost:4318/v1/metrics; empty: "
               "from OTEL_EXPORTER_OTLP_ENDPOINT, or else this example"),
       TextKey("otel", "service_name", &Config::otel_service_name, CheckServiceName,
               "name of this daemon in the collector"),
       NumberKey("otel", "export_interval_millis", &Config::otel_interval_ms, 1000, 86'400'000,
                 "milliseconds between two exports"),
       TextKey(
           "metrics", "listen", &Config::metrics_listen, CheckListen,
           "address and port, such as 127.0.0.1:9464, where Prometheus gets GET /metrics without a "
           "key; empty: only on the API's port, with the key (also as a bearer token)"),
       Live({"log", "level", Kind::kText, "debug, info, warning or error", SetLevel, GetLevel}),
       Live({"log", "format", Kind::kText,
             "text, or json with an object per line. Both have the journal's priorities if the log "
             "goes there",
             SetFormat,
             [](const Config& c) { return Values{std::string(LogFormatName(c.log_format))}; }})});
}

Result<std::string> CheckProvider(const std::string& text) {
  if (text.empty() || text == "file" || text == "http") return text;
  return Fail(BadValue(text, "use file or http; empty: no tenants"));
}

Result<std::string> CheckHeaderName(const std::string& text) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (text.find_first_not_of(kLetters) == std::string::npos) return text;
  return Fail(BadValue(text, "use the name of a header"));
}

// The error does not quote the value, because it is a secret.
Result<std::string> CheckHeaderValue(const std::string& text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') {
      return Fail(Code::kInvalidArgument, "use only printable ASCII characters");
    }
  }
  return text;
}

Result<std::string> CheckTenant(const std::string& text) {
  if (text.empty() || tenants::IsTenantName(text)) return text;
  return Fail(BadValue(text, "use the name of a tenant; empty: none"));
}

void AddTenantKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("tenants", "provider", &Config::tenants_provider, CheckProvider,
               "who knows the keys of tenants, several teams that share this host: file, or http, "
               "a service that is asked; empty: no tenants, and server.api_key opens everything"),
       TextKey("tenants", "file", &Config::tenants_file, CheckAbsolutePath,
               "the tenants, their limits and keys; a reload reads it again. With the provider "
               "http it may be absent"),
       TextKey("tenants", "endpoint", &Config::tenants_endpoint, CheckOptionalUrl,
               "URL of the provider http: GET with a client's key in OPEN-SANDBOX-API-KEY answers "
               "200 {namespace, ttl}, or 401"),
       TextKey("tenants", "auth_header", &Config::tenants_auth_header, CheckHeaderName,
               "header with which the daemon identifies itself to the provider http"),
       Secret(TextKey("tenants", "auth_token", &Config::tenants_auth_token, CheckHeaderValue,
                      "value of that header")),
       NumberKey("tenants", "timeout_seconds", &Config::tenants_timeout, 1, 60,
                 "seconds that the provider http has for an answer"),
       NumberKey("tenants", "max_stale_seconds", &Config::tenants_max_stale, 0, 86400,
                 "seconds for which an answer of the provider http counts while the provider is "
                 "away"),
       TextKey("tenants", "adopt", &Config::tenants_adopt, CheckTenant,
               "tenant that gets the sandboxes from before there were tenants, at the first start "
               "with tenants; empty: they belong to the host, and only admins reach them")});
}

void AddAuditKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {{"audit", "enabled", Kind::kText,
        "whether who did what is recorded in an audit log: on, off, or auto, which is on with "
        "tenants",
        SetAudit, [](const Config& c) { return Values{c.audit_enabled}; }},
       TextKey("audit", "directory", &Config::audit_directory, CheckAbsolutePath,
               "directory of the audit log, for nothing else"),
       Live({"audit", "level", Kind::kList,
             "how much is recorded of an action, as ACTION=LEVEL; exec.* is a group, the last rule "
             "that fits counts; levels: none, meta (who, what, result), argv (also the program and "
             "an HMAC of the command), full (also the command); default: argv for exec.*, else "
             "meta",
             SetAuditLevels, [](const Config& c) { return c.audit_levels; }}),
       NumberKey("audit", "keep_days", &Config::audit_keep_days, 0, 36500,
                 "days after which files of the audit log are deleted; 0: never"),
       BytesKey("audit", "keep_bytes", &Config::audit_keep_bytes, 0, cgroup::kMaxLimitBytes,
                "size of all files beyond which the oldest is deleted; 0: no limit"),
       BytesKey("audit", "tenant_bytes", &Config::audit_tenant_bytes, 0, cgroup::kMaxLimitBytes,
                "size of the newest lines of each tenant that stay, however many others write; "
                "together at most half of keep_bytes; 0: none"),
       {"audit", "sinks", Kind::kList,
        "receivers of all lines: journald, syslog://HOST:PORT (RFC 5424 over TLS), https://… (POST "
        "of lines of JSON, gzip), otlp+https://… (OTLP logs), each with options: ca=/FILE, "
        "key=/FILE to sign requests, bearer=/FILE; empty: none",
        SetAuditSinks, [](const Config& c) { return c.audit_sinks; }},
       {"audit", "on_failure", Kind::kText,
        "what happens while the audit log cannot be written: refuse requests that change something "
        "(except deletes and pauses), or continue and count what is missing",
        SetOnFailure,
        [](const Config& c) { return Values{c.audit_refuses ? "refuse" : "continue"}; }},
       {"audit", "record_pty", Kind::kText,
        "whether terminals are recorded into the history: off, output (what they show), or input "
        "(also what is typed, secrets included); needs an audit log, and on_failure counts",
        SetRecordPty, [](const Config& c) { return Values{c.record_pty}; }}});
}

Status SetHistoryKeep(const Values& v, Config* c) {
  const auto seconds = ParseDuration(v[0]);
  if (!seconds) return Fail(BadValue(v[0], "use a duration, such as 12h or 7d; 0: no history"));
  c->history_keep = static_cast<uint64_t>(*seconds);
  return {};
}

void AddHistoryKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {{"history", "keep", Kind::kQuantity,
        "how long the record, the events and the output of a sandbox that is gone can be read: "
        "12h, 7d; 0: no history",
        SetHistoryKeep,
        [](const Config& c) { return Values{DurationText(static_cast<int64_t>(c.history_keep))}; }},
       BytesKey("history", "max_bytes", &Config::history_max_bytes, 64 << 10,
                cgroup::kMaxLimitBytes,
                "size of the history of each tenant (of the daemon, without tenants), beyond which "
                "the oldest goes")});
}

std::string Spelled(std::string text, char separator, bool upper) {
  for (char& c : text) {
    if (c == '.' || c == '_') c = separator;
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

}  // namespace

const std::vector<Key>& Keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> made;
    AddServerKeys(&made);
    AddRuntimeKeys(&made);
    AddIsolationKeys(&made);
    AddGpuKeys(&made);
    AddImageKeys(&made);
    AddNetworkKeys(&made);
    AddLimitKeys(&made);
    AddFeatureKeys(&made);
    AddTenantKeys(&made);
    AddAuditKeys(&made);
    AddHistoryKeys(&made);
    return made;
  }();
  return keys;
}

std::string FullName(const Key& key) {
  return std::string(key.section) + "." + key.name;
}

std::string FlagOf(const Key& key) {
  return "--" + Spelled(FullName(key), '-', false);
}

std::string EnvironmentOf(const Key& key) {
  return "ATOLL_" + Spelled(FullName(key), '_', true);
}

}  // namespace atl::daemon
