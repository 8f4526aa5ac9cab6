#include "runtime/daemon/config_keys.h"

#include <charconv>

#include "cgroup/limits_text.h"
#include "images/allowed.h"
#include "images/registry/reference.h"
#include "runtime/base/base64.h"
#include "runtime/daemon/config_values.h"
#include "runtime/sandbox/record/sandbox.h"
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

// What a sandbox gets that asks for none.
Key LimitKey(const cgroup::LimitField& field) {
  const bool optional = field.need == cgroup::LimitNeed::kOptional;
  return {"limits",
          field.name,
          field.kind == cgroup::LimitKind::kCount ? Kind::kNumber : Kind::kQuantity,
          std::string(field.what) + " of a sandbox that asks for none" +
              (optional ? "; 0: no limit of its own" : ""),
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

// ---- keys that are like no other

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

Status SetLevel(const Values& v, Config* c) {
  // Upstream writes them in capitals, and knows more names.
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
  // The shortest that a create may ask for.
  if (c->max_sandbox_timeout != 0 && c->max_sandbox_timeout < 60) {
    return Fail(BadValue(v[0], "use 60 or more, or 0 for no bound"));
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
      return Fail(BadValue(id, "a key_id is one character, 0-9 or a-z"));
    }
    for (const SigningKey& other : keys) {
      if (other.id == id[0]) return Fail(BadValue(id, "this key_id is there twice"));
    }
    // The text itself is a secret.
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

// ---- the table

void AddServerKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("server", "host", &Config::host, CheckHost, "address to listen on"),
       NumberKey("server", "port", &Config::port, 0, 65535, "port to listen on; 0: any free one"),
       Live(Secret(TextKey("server", "api_key", &Config::api_key, CheckApiKey,
                           "key that clients send; without one, the first start makes one (a flag "
                           "is visible to other users of this host: prefer the file)"))),
       BoolKey("server", "insecure_no_api_key", &Config::insecure_no_api_key,
               "ask for no key at all: only with a loopback address"),
       TextKey("server", "eip", &Config::public_host, CheckPublicHost,
               "host name or address that endpoints name; none: the one of the request"),
       TextKey("server", "base_path", &Config::base_path, CheckBasePath,
               "path before that of every endpoint, for a proxy in front that takes it off"),
       {"server", "max_sandbox_timeout_seconds", Kind::kNumber,
        "longest life that a create may ask for; 0: any", SetTimeout,
        [](const Config& c) { return Values{std::to_string(c.max_sandbox_timeout)}; }},
       Live(TextKey("server", "tls_cert", &Config::tls_cert, CheckOptionalPath,
                    "PEM file with the certificate for TLS, its chain behind it; programs of this "
                    "host may still do without TLS; none: nobody uses it")),
       Live(TextKey("server", "tls_key", &Config::tls_key, CheckOptionalPath,
                    "PEM file with its private key, without a passphrase; both are read again at a "
                    "reload, by the daemon's user")),
       NumberKey("server", "timeout_keep_alive", &Config::keep_alive, 1, 86400,
                 "seconds that an idle connection is kept"),
       Live(NumberKey("server", "limit_concurrency", &Config::limit_concurrency, 0, 1000000,
                      "requests in hand at once, past which clients get 503; streams into "
                      "sandboxes do not count; 0: any number"))});
}

void AddRuntimeKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {TextKey("storage", "data_dir", &Config::data_dir, CheckAbsolutePath,
               "images, upper layers, state"),
       BytesKey("storage", "volume_default_size", &Config::volume_default_bytes, 0,
                cgroup::kMaxLimitBytes,
                "what a named volume may hold that was made without a size, where the store has "
                "quotas; 0: no limit"),
       ListKey("storage", "allowed_host_paths", &Config::allowed_host_paths, CheckHostPath,
               "directories of the host that sandboxes may mount, with everything below them; "
               "none: no host directory can be mounted"),
       ListKey("storage", "object_stores", &Config::object_stores, CheckObjectStore,
               "stores of objects (S3) whose buckets sandboxes may mount: NAME https://ENDPOINT "
               "bucket=NAME (again for each; * for all) [credentials=/FILE, of root alone, with "
               "KEY:SECRET, for requests that bring none] [region=NAME] [style=host, the bucket in "
               "the host's name] [ca=/FILE]; none: no bucket can be mounted"),
       TextKey("runtime", "run_dir", &Config::run_dir, CheckAbsolutePath, "sockets"),
       TextKey("runtime", "user", &Config::user, CheckUser, "who the daemon runs as"),
       NumberKey("runtime", "pool_size", &Config::pool_size, 0, 512, "network slots kept ready"),
       NumberKey("runtime", "parked_sandboxes", &Config::parked_sandboxes, 0, 1024,
                 "sandboxes that all pools and templates together may keep built ahead; each takes "
                 "a slot and some 0.9 MiB, of a template also what its programs take, and counts "
                 "in max_sandboxes"),
       NumberKey("runtime", "automatic_pools", &Config::automatic_pools, 0, 256,
                 "images (and limits) that creates have used last and of which two sandboxes each "
                 "are kept built ahead, until none has asked for ten minutes; 0: only pools that "
                 "somebody has made"),
       BoolKey("runtime", "access_token", &Config::access_token,
               "whether the execd of a new sandbox asks for the token that its endpoint tells; "
               "false is for clients that cannot send one"),
       BoolKey("runtime", "start_spawner", &Config::start_spawner,
               "whether the daemon starts a spawner if none answers; the systemd unit says false, "
               "because the spawner has its own"),
       NumberKey("runtime", "builds_at_once", &Config::builds_at_once, 1, 64,
                 "sandboxes built at once; more than two only slow each other down"),
       NumberKey("runtime", "build_queue", &Config::build_queue, 1, 100000,
                 "creates that wait for their turn, past which clients are told to come again"),
       {"runtime", "overcommit", Kind::kQuantity,
        "the limits of all sandboxes and their buckets together may be this many times the memory "
        "and the process numbers of the host; 0: only what is really free counts",
        SetOvercommit, GetOvercommit},
       NumberKey(
           "runtime", "keep_ended_seconds", &Config::keep_ended_seconds, 0, kMaxSeconds,
           "how long a sandbox that has ended, and has no deadline, can still be read; 0: until it "
           "is deleted")});
}

void AddImageKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {ListKey("images", "allowed", &Config::allowed_images, images::CheckAllowedRule,
               "images that sandboxes may be made of: NAME:TAG, * for any characters, "
               "@sha256:… for one digest alone; none: all that are here"),
       ListKey("images", "pull", &Config::pull_images, images::registry::CheckPullRule,
               "images that a create fetches if they are not here, with their registry spelled "
               "out: registry.example/team/*, or * for all of docker.io; none: nothing is fetched"),
       TextKey("images", "pull_auth", &Config::pull_auth_file, CheckOptionalPath,
               "who the daemon is to these registries: a file as 'skopeo login --authfile' writes "
               "it, which only the daemon's user (0600) or group (0640) may read; empty: nobody"),
       TextKey("images", "pull_ca", &Config::pull_ca, CheckOptionalPath,
               "PEM file of the authorities whose certificates registries have; empty: those that "
               "the host believes")});
}

void AddNetworkKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {ListKey("network", "dns", &Config::dns, CheckResolver,
               "resolvers that sandboxes' queries are forwarded to, as address or address:port; "
               "none: those of the host"),
       BoolKey("network", "deny_unless_asked", &Config::deny_unless_asked,
               "a sandbox without a networkPolicy reaches nothing, instead of everything"),
       ListKey("network", "deny_always", &Config::deny_always, CheckTarget,
               "names, wildcards and prefixes that no sandbox reaches, whatever its policy says"),
       ListKey("network", "allow_always", &Config::allow_always, CheckTarget,
               "those that every sandbox with a policy reaches, whatever it says"),
       ListKey("network", "private", &Config::private_networks, CheckPrefix,
               "addresses and prefixes that only a policy that names them opens"),
       BoolKey("network", "allow_unnamed", &Config::allow_unnamed,
               "TLS without a server name, or with an encrypted one, passes where names decide"),
       NumberKey("network", "max_connections", &Config::max_connections, 1, 1'000'000,
                 "connections of one sandbox at a time, at most"),
       TextKey("network", "denial_webhook", &Config::denial_webhook, CheckOptionalUrl,
               "an http:// or https:// URL that is told, by POST, what was denied; empty: none")});
}

void AddLimitKeys(std::vector<Key>* keys) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.value == &cgroup::Limits::pids) {
      // Before limits.pids, which counts if both are there.
      Key docker = Live(LimitKey(field));
      docker.section = "docker";
      docker.name = "pids_limit";
      docker.help = "another name for limits.pids";
      docker.get = nullptr;
      keys->push_back(docker);
    }
    keys->push_back(Live(LimitKey(field)));
  }
  keys->push_back(
      NumberKey("limits", "max_sandboxes", &Config::max_sandboxes, 0, 4096,
                "sandboxes at once, past which creates are refused; 0: as many as there are "
                "addresses"));
}

void AddFeatureKeys(std::vector<Key>* keys) {
  keys->insert(
      keys->end(),
      {NumberKey("snapshots", "max_count", &Config::max_snapshots, 0, 100000,
                 "snapshots at once, whatever their state, past which none is taken"),
       BytesKey("snapshots", "max_bytes", &Config::max_snapshot_bytes, 0, cgroup::kMaxLimitBytes,
                "what all of them together may take; 0: what the store has room for, of which a "
                "twentieth, at most 1 GiB, is left to the sandboxes that run"),
       BytesKey("logs", "max_bytes", &Config::log_max_bytes, 64 << 10, 1ULL << 30,
                "what is kept of the output of a sandbox's entrypoint"),
       NumberKey("logs", "keep_after_removal_seconds", &Config::log_keep_after_removal, 0,
                 kMaxSeconds, "how long it is kept after the sandbox's removal"),
       BoolKey(
           "renew_intent", "enabled", &Config::renew_on_access,
           "whether access moves the deadline of a sandbox whose create asked for it (extension "
           "access.renew.extend.seconds)"),
       NumberKey("renew_intent", "min_interval_seconds", &Config::renew_min_interval, 1, 86400,
                 "seconds between two such moves"),
       NumberKey("idle", "after_seconds", &Config::idle_after, 0, sandbox::kMaxIdleSeconds,
                 "how long a sandbox may be used by nobody: no request or stream, no processor "
                 "time; 0: for ever. A create can say otherwise (extension idle.after)"),
       {"idle", "action", Kind::kText,
        "what becomes of it then: pause, until the next request lets it go on, or end (extension "
        "idle.action)",
        SetIdleAction, [](const Config& c) { return Values{c.idle_ends ? "end" : "pause"}; }},
       {"pause", "memory", Kind::kText,
        "what becomes of the memory of a paused sandbox whose create says nothing (extension "
        "pause.memory): keep, or reclaim, which brings it to a swap area of Atoll's own until it "
        "goes on",
        SetPauseMemory,
        [](const Config& c) { return Values{c.pause_reclaims ? "reclaim" : "keep"}; }},
       BytesKey("pause", "swap_size", &Config::swap_bytes, 0, wire::kMostSwapBytes,
                "what the paused sandboxes together may have in that area, which is there while "
                "one has; 0: no area, and each keeps its memory"),
       {"pause", "swap_kind", Kind::kText,
        "where that area is: dm-crypt, a file in storage.data_dir, encrypted with a key that is "
        "never written down; zram, compressed in memory; auto, the first of them that the kernel "
        "has",
        SetSwapKind, [](const Config& c) { return Values{c.swap_kind}; }},
       {"ingress", "mode", Kind::kText,
        "what endpoints name: direct, a path of this server, or gateway, what ingress.gateway says",
        SetIngressMode, [](const Config& c) { return Values{c.gateway ? "gateway" : "direct"}; }},
       TextKey("ingress.gateway", "address", &Config::gateway_address, CheckGatewayAddress,
               "name under which clients reach this server's port, such as *.sandboxes.example.org "
               "for the route mode wildcard"),
       TextKey("ingress.gateway.route", "mode", &Config::gateway_route, CheckRouteMode,
               "wildcard: {id}-{port}.DOMAIN, a browser's origin for each port; uri: "
               "ADDRESS/{id}/{port}; header: OpenSandbox-Ingress-To"),
       {"ingress.secure_access", "active_key", Kind::kText,
        "key_id of the key that new signed routes are signed with", SetActiveKey,
        [](const Config& c) {
          return Values{c.active_signing_key == 0 ? "" : std::string(1, c.active_signing_key)};
        }},
       {"ingress.secure_access",
        "keys",
        Kind::kRows,
        "keys that signed routes are checked with: key_id, one of 0-9 and a-z, and key, base64",
        SetSigningKeys,
        GetSigningKeys,
        false,
        true,
        {"key_id", "key"}},
       BoolKey("ingress.secure_access", "short_signatures", &Config::short_signatures,
               "whether signed routes carry OpenSandbox's signature of 32 bits, for gateways and "
               "programs that sign or check them themselves; otherwise 56 bits, and no shorter "
               "one is accepted"),
       BoolKey("otel", "enabled", &Config::otel_enabled,
               "whether an OpenTelemetry collector is sent how long requests took, and creates for "
               "clients (OTLP over HTTP)"),
       TextKey("otel", "endpoint", &Config::otel_endpoint, CheckOptionalUrl,
               "where it takes metrics, such as http://localhost:4318/v1/metrics; empty: what "
               "OTEL_EXPORTER_OTLP_ENDPOINT says, else that one"),
       TextKey("otel", "service_name", &Config::otel_service_name, CheckServiceName,
               "what this daemon is called there"),
       NumberKey("otel", "export_interval_millis", &Config::otel_interval_ms, 1000, 86'400'000,
                 "milliseconds from one time to the next"),
       TextKey(
           "metrics", "listen", &Config::metrics_listen, CheckListen,
           "address and port, such as 127.0.0.1:9464, where Prometheus gets GET /metrics "
           "without a key; empty: only where the API is, with the key (also as a bearer token)"),
       Live({"log", "level", Kind::kText, "debug, info, warning or error", SetLevel, GetLevel}),
       Live({"log", "format", Kind::kText,
             "text, or json: an object for each line. Where the journal takes the log, both carry "
             "its priorities",
             SetFormat,
             [](const Config& c) { return Values{std::string(LogFormatName(c.log_format))}; }})});
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
    AddImageKeys(&made);
    AddNetworkKeys(&made);
    AddLimitKeys(&made);
    AddFeatureKeys(&made);
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
