#include "runtime/daemon/config.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "netpolicy/policy/guards.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/config_keys.h"
#include "runtime/sandbox/record/socket_path.h"
#include "runtime/wire/swap.h"
#include "runtime/wire/tier.h"

// The packaged library is not used, because it is built with exceptions.
#define TOML_EXCEPTIONS 0
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace atl::daemon {
namespace {

constexpr size_t kMaxConfigFile = 1 << 20;

using Values = std::vector<std::string>;

std::string Where(const std::string& name, const toml::source_region& source) {
  return name + " line " + std::to_string(source.begin.line);
}

Result<std::string> TextOf(const toml::node& node, const char* else_say) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  return Fail(Code::kInvalidArgument, else_say);
}

Result<Values> QuantityOf(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return Values{*text};
  if (const auto number = node.value_exact<int64_t>()) return Values{std::to_string(*number)};
  if (const auto number = node.value_exact<double>()) {
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, *number).ptr;
    return Values{std::string(digits, end)};
  }
  return Fail(Code::kInvalidArgument, "must be a number, or a string in quotes");
}

Result<Values> ListOf(const toml::node& node) {
  constexpr char kWanted[] = "must be a list of strings";
  if (const auto text = node.value_exact<std::string>()) return Values{*text};
  const toml::array* list = node.as_array();
  if (list == nullptr) return Fail(Code::kInvalidArgument, kWanted);
  Values values;
  for (const toml::node& item : *list) {
    ATOLL_ASSIGN(values.emplace_back(), TextOf(item, kWanted));
  }
  return values;
}

// Returns one value for each table, its fields joined by ':'.
Result<Values> RowsOf(const toml::node& node, const Key& key) {
  std::string wanted = "must be an array of tables, each with the strings";
  for (const char* field : key.fields) wanted.append(" ").append(field);
  const toml::array* list = node.as_array();
  if (list == nullptr) return Fail(Code::kInvalidArgument, wanted);
  Values rows;
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr || table->size() != key.fields.size()) {
      return Fail(Code::kInvalidArgument, wanted);
    }
    std::string row;
    for (const char* field : key.fields) {
      const toml::node* value = table->get(field);
      if (value == nullptr) return Fail(Code::kInvalidArgument, wanted);
      ATOLL_ASSIGN(const std::string text, TextOf(*value, wanted.c_str()));
      row.append(field == key.fields.front() ? "" : ":").append(text);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Returns the values of a node as text. Fails if it is not of the key's kind.
Result<Values> ValuesOf(const toml::node& node, const Key& key) {
  switch (key.kind) {
    case Key::Kind::kText: {
      ATOLL_ASSIGN(std::string text, TextOf(node, "must be a string in quotes"));
      return Values{std::move(text)};
    }
    case Key::Kind::kNumber:
      if (const auto number = node.value_exact<int64_t>()) return Values{std::to_string(*number)};
      return Fail(Code::kInvalidArgument, "must be a whole number");
    case Key::Kind::kBool:
      if (const auto truth = node.value_exact<bool>()) return Values{*truth ? "true" : "false"};
      return Fail(Code::kInvalidArgument, "must be true or false");
    case Key::Kind::kQuantity:
      return QuantityOf(node);
    case Key::Kind::kList:
      return ListOf(node);
    case Key::Kind::kRows:
      return RowsOf(node, key);
  }
  return Fail(Code::kInternal, "a key of no kind");
}

const Key* FindKey(const std::string& name) {
  for (const Key& key : Keys()) {
    if (FullName(key) == name) return &key;
  }
  return nullptr;
}

bool IsSection(const std::string& name) {
  return std::any_of(Keys().begin(), Keys().end(), [&name](const Key& key) {
    return key.section == name || std::string_view(key.section).starts_with(name + ".");
  });
}

// `section`: the name of the table; empty for the top level.
Status ReadTable(const std::string& file, const std::string& section, const toml::table& table,
                 Loaded* loaded) {
  for (const auto& [name, node] : table) {
    const std::string full =
        section.empty() ? std::string(name.str()) : section + "." + std::string(name.str());
    const std::string where = Where(file, node.source()) + ": " + full;
    if (const char* why = WhyForeign(full)) {
      loaded->warnings.push_back(where + " has no effect: " + why);
    } else if (const Key* key = FindKey(full)) {
      const auto values = ValuesOf(node, *key);
      const Status set = values ? key->set(*values, &loaded->config) : Fail(values.error());
      if (!set) return Fail(Code::kInvalidArgument, where + " " + set.error().message());
    } else if (node.is_table() && IsSection(full)) {
      ATOLL_TRY(ReadTable(file, full, *node.as_table(), loaded));
    } else {
      loaded->warnings.push_back(where + " is not known and has no effect");
    }
  }
  return {};
}

bool HasSecret(const Config& config) {
  return std::any_of(Keys().begin(), Keys().end(), [&config](const Key& key) {
    if (!key.secret || !key.get) return false;
    const Values values = key.get(config);
    return !values.empty() && !values[0].empty();
  });
}

Result<Loaded> LoadFile(const std::string& path, bool must_exist) {
  auto text = sys::Open(path, O_RDONLY);
  if (!text) {
    if (!must_exist && text.error().code() == Code::kNotFound) return Loaded();
    // The daemon runs as its own user during a reload.
    const bool denied = text.error().error_number() == EACCES;
    return Fail(std::move(text).error().Wrap(
        denied ? "read the configuration (it must be readable by the group of runtime.user: chgrp "
                 "GROUP " +
                     path + " && chmod 0640 " + path + ")"
               : "read the configuration"));
  }
  struct stat info {};
  if (::fstat(text->get(), &info) != 0) return FailSys("fstat " + path);
  // Other files, such as /dev/null, hold nothing that somebody could change.
  if (S_ISREG(info.st_mode)) ATOLL_TRY(CheckWriters(path, info, {0, ::geteuid()}));
  ATOLL_ASSIGN(const std::string bytes, sys::ReadAll(text->get(), kMaxConfigFile));
  ATOLL_ASSIGN(Loaded loaded, ParseConfig(bytes, path));
  if (S_ISREG(info.st_mode) && (info.st_mode & 0004) != 0 && HasSecret(loaded.config)) {
    loaded.warnings.push_back(
        path + " holds an API key, and every user of this host can read it: " + "chmod o-r " +
        path);
  }
  return loaded;
}

// Returns the value of a variable, null if it is not set.
const char* Variable(const Values& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.c_str() + name.size() + 1;
    }
  }
  return nullptr;
}

Values SplitAtCommas(std::string_view text) {
  Values parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

Status Set(const Key& key, const Values& values, const std::string& where, Config* config) {
  const Status set = key.set(values, config);
  if (set) return {};
  return Fail(Code::kInvalidArgument, where + " " + set.error().message());
}

// Warns about variables with Atoll's prefix that do not exist; they are probably misspelt.
void WarnOfUnknownVariables(const Values& environment, Values* warnings) {
  for (const std::string& entry : environment) {
    const std::string name = entry.substr(0, entry.find('='));
    bool section = false;
    bool known = false;
    for (const Key& key : Keys()) {
      const std::string wanted = EnvironmentOf(key);
      known = known || wanted == name;
      const size_t prefix = wanted.size() - std::string_view(key.name).size();
      section = section || name.starts_with(wanted.substr(0, prefix));
    }
    if (section && !known) {
      warnings->push_back("environment: " + name + " is not known and has no effect");
    }
  }
}

}  // namespace

std::vector<std::string> DefaultPrivateNetworks() {
  std::vector<std::string> texts;
  for (const netpolicy::IpPrefix& prefix : netpolicy::DefaultPrivate()) {
    texts.push_back(prefix.ToString());
  }
  return texts;
}

bool IsLoopback(const std::string& host) {
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) {
    return (ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  in6_addr address6{};
  return ::inet_pton(AF_INET6, host.c_str(), &address6) == 1 && IN6_IS_ADDR_LOOPBACK(&address6);
}

Result<Loaded> ParseConfig(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Fail(Code::kInvalidArgument, Where(name, parsed.error().source()) + ": " +
                                            std::string(parsed.error().description()));
  }
  Loaded loaded;
  ATOLL_TRY(ReadTable(name, "", parsed.table(), &loaded));
  return loaded;
}

Status ApplyEnvironment(const std::vector<std::string>& environment, Loaded* loaded) {
  Config& config = loaded->config;
  if (const char* key = Variable(environment, "OPENSANDBOX_SERVER_API_KEY")) {
    ATOLL_TRY(Set(*FindKey("server.api_key"), {key}, "OPENSANDBOX_SERVER_API_KEY", &config));
    loaded->no_key_wanted = config.api_key.empty();
  }
  if (const char* path = Variable(environment, "SANDBOX_TENANTS_CONFIG_PATH")) {
    ATOLL_TRY(Set(*FindKey("tenants.file"), {path}, "SANDBOX_TENANTS_CONFIG_PATH", &config));
  }
  for (const Key& key : Keys()) {
    const std::string name = EnvironmentOf(key);
    const char* value = Variable(environment, name);
    if (value == nullptr) continue;
    const bool many = key.kind == Key::Kind::kList || key.kind == Key::Kind::kRows;
    ATOLL_TRY(Set(key, many ? SplitAtCommas(value) : Values{value}, name, &config));
  }
  const char* insecure = Variable(environment, "OPENSANDBOX_INSECURE_SERVER");
  loaded->no_key_allowed = insecure != nullptr && std::string_view(insecure) == "YES";
  WarnOfUnknownVariables(environment, &loaded->warnings);
  return {};
}

Result<Loaded> LoadConfig(const Sources& sources) {
  std::string path = sources.path;
  bool must_exist = sources.must_exist;
  if (const char* named = Variable(sources.environment, "SANDBOX_CONFIG_PATH");
      named != nullptr && !must_exist) {
    path = named;
    must_exist = true;
  }
  ATOLL_ASSIGN(Loaded loaded, LoadFile(path, must_exist));
  ATOLL_TRY(ApplyEnvironment(sources.environment, &loaded));
  Config& config = loaded.config;
  for (const Override& flag : sources.flags) {
    ATOLL_TRY(Set(Keys()[flag.key], flag.values, flag.where, &config));
  }
  if (config.api_key.empty() && loaded.no_key_allowed) config.insecure_no_api_key = true;
  if (config.api_key.empty() && loaded.no_key_wanted && !config.insecure_no_api_key) {
    return Fail(Code::kInvalidArgument,
                "OPENSANDBOX_SERVER_API_KEY is empty: to serve without an API key, set "
                "OPENSANDBOX_INSECURE_SERVER=YES; to have a key generated, unset the variable");
  }
  ATOLL_TRY(CheckConfig(config));
  return loaded;
}

namespace {

Status CheckGateway(const Config& config) {
  const bool has_address = !config.gateway_address.empty();
  const bool has_route = !config.gateway_route.empty();
  if (!config.gateway) {
    if (!has_address && !has_route) return {};
    return Fail(Code::kInvalidArgument,
                "ingress.gateway is set, but ingress.mode is direct: set ingress.mode to gateway, "
                "or remove ingress.gateway");
  }
  if (!has_address || !has_route) {
    return Fail(Code::kInvalidArgument,
                "ingress.mode is gateway: it needs ingress.gateway.address and "
                "ingress.gateway.route.mode");
  }
  if (config.gateway_address.starts_with("*.") != (config.gateway_route == "wildcard")) {
    return Fail(Code::kInvalidArgument, "ingress.gateway.address '" + config.gateway_address +
                                            "' does not fit the route mode " +
                                            config.gateway_route +
                                            ": an address such as *.example.org is for the route "
                                            "mode wildcard, and required there");
  }
  return {};
}

// A tenant's key must not compete with a key that opens everything.
Status CheckTenants(const Config& config) {
  const auto refuse = [](const std::string& what) { return Fail(Code::kInvalidArgument, what); };
  if (config.tenants_provider.empty()) {
    const bool touched = !config.tenants_endpoint.empty() || !config.tenants_adopt.empty() ||
                         !config.tenants_auth_header.empty() || !config.tenants_auth_token.empty();
    return touched ? refuse(
                         "tenants.provider is not set, but other keys of [tenants] are: set it "
                         "to file or http, or remove them")
                   : Status();
  }
  if (!config.api_key.empty()) {
    return refuse(
        "server.api_key and tenants.provider are both set: with tenants every key belongs to a "
        "tenant or has a role; remove server.api_key, and make keys with 'atoll key add'");
  }
  if (config.insecure_no_api_key) {
    return refuse("insecure_no_api_key and tenants.provider are both set: choose one");
  }
  if ((config.tenants_provider == "http") == config.tenants_endpoint.empty()) {
    return refuse(config.tenants_endpoint.empty()
                      ? "tenants.provider is http: it needs tenants.endpoint"
                      : "tenants.endpoint is set, but tenants.provider is file: choose one");
  }
  if (config.tenants_auth_header.empty() != config.tenants_auth_token.empty()) {
    return refuse("tenants.auth_header and tenants.auth_token belong together: set both");
  }
  return {};
}

}  // namespace

// The spawner checks this again, as root.
static Status CheckAllowedHostPaths(const Config& config) {
  const auto resolve = [](const std::string& path) {
    std::error_code failed;
    const auto resolved = std::filesystem::weakly_canonical(path, failed);
    return failed ? path : resolved.string();
  };
  const auto within = [](const std::string& path, const std::string& directory) {
    return path == directory || path.starts_with(directory + "/");
  };
  for (const std::string& allowed : config.allowed_host_paths) {
    const std::string path = resolve(allowed);
    for (const auto& [key, own] : {std::pair("storage.data_dir", config.data_dir),
                                   std::pair("runtime.run_dir", config.run_dir)}) {
      const std::string ours = resolve(own);
      if (!within(path, ours) && !within(ours, path)) continue;
      return Fail(Code::kInvalidArgument,
                  "storage.allowed_host_paths '" + allowed +
                      (within(path, ours) ? "' lies in " : "' holds ") + key + " '" + own +
                      "', which no sandbox may see: allow other directories instead");
    }
  }
  return {};
}

sandbox::Isolation::Policy IsolationPolicyOf(const Config& config) {
  sandbox::Isolation::Policy policy;
  if (!config.isolation.empty()) policy.type = config.isolation;
  policy.allowed = config.allowed_tiers;
  policy.minimum = config.minimum_isolation;
  return policy;
}

bool KeepsAudit(const Config& config) {
  if (config.audit_enabled == "auto") return !config.tenants_provider.empty();
  return config.audit_enabled == "on";
}

static Status CheckParked(const Config& config) {
  if (config.vm_parked == 0) return {};
  if (IsolationPolicyOf(config).type != wire::kMicrovmTier) {
    return Fail(Code::kInvalidArgument,
                "secure_runtime.vm_parked is set, but secure_runtime.type is not microvm");
  }
  const uint64_t least = wire::LeastMemoryOf(wire::kMicrovmTier);
  if (config.limits.memory_bytes != 0 && config.limits.memory_bytes < least) {
    return Fail(Code::kInvalidArgument,
                "secure_runtime.vm_parked: a virtual machine needs at least " +
                    std::to_string(least >> 20) + "Mi of limits.memory");
  }
  return {};
}

Status CheckConfig(const Config& config) {
  ATOLL_TRY(CheckAllowedHostPaths(config));
  ATOLL_TRY(CheckTenants(config));
  if (config.record_pty != "off" && !KeepsAudit(config)) {
    return Fail(Code::kInvalidArgument,
                "audit.record_pty is set, but there is no audit log: set audit.enabled to \"on\"");
  }
  if (config.run_dir.size() + std::string_view("/sandboxes").size() >
      sandbox::kMaxSocketDirectory) {
    return Fail(Code::kInvalidArgument, "runtime.run_dir '" + config.run_dir +
                                            "' is too long for the socket names in it: at most " +
                                            std::to_string(sandbox::kMaxSocketDirectory - 10) +
                                            " characters");
  }
  if (config.log_keep_after_removal > config.history_keep) {
    return Fail(
        Code::kInvalidArgument,
        "logs.keep_after_removal_seconds is longer than history.keep, which keeps the logs: "
        "raise history.keep");
  }
  if (config.swap_bytes != 0 && !wire::IsSwapSize(config.swap_bytes)) {
    return Fail(Code::kInvalidArgument,
                "pause.swap_size " + std::to_string(config.swap_bytes) +
                    ": use at least 1Mi, a multiple of 4096 bytes, or 0 for no swap area");
  }
  if (config.pause_reclaims && config.swap_bytes == 0) {
    return Fail(
        Code::kInvalidArgument,
        "pause.memory is reclaim, but pause.swap_size is not set: set it too, such as \"8Gi\"");
  }
  if (config.insecure_no_api_key && !config.api_key.empty()) {
    return Fail(Code::kInvalidArgument,
                "server.api_key and insecure_no_api_key are both set: choose one");
  }
  if (config.insecure_no_api_key && !IsLoopback(config.host)) {
    return Fail(Code::kInvalidArgument,
                "insecure_no_api_key would let everybody who can reach " + config.host +
                    " run code on this host: it is only allowed with a loopback address");
  }
  const bool active_known =
      std::any_of(config.signing_keys.begin(), config.signing_keys.end(),
                  [&config](const SigningKey& key) { return key.id == config.active_signing_key; });
  if (config.active_signing_key != 0 && !active_known) {
    return Fail(Code::kInvalidArgument, "ingress.secure_access.active_key '" +
                                            std::string(1, config.active_signing_key) +
                                            "' is not the key_id of one of its keys");
  }
  if (config.active_signing_key == 0 && !config.signing_keys.empty()) {
    return Fail(
        Code::kInvalidArgument,
        "ingress.secure_access.keys is set, but active_key is not: it selects the key that signs");
  }
  ATOLL_TRY(sandbox::Isolation::CheckPolicy(IsolationPolicyOf(config)));
  ATOLL_TRY(CheckParked(config));
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return Fail(Code::kInvalidArgument,
                config.tls_key.empty()
                    ? "server.tls_cert is set without server.tls_key, its private key"
                    : "server.tls_key is set without server.tls_cert, its certificate");
  }
  return CheckGateway(config);
}

}  // namespace atl::daemon
