#include "runtime/daemon/config.h"

#include <arpa/inet.h>

#include <charconv>
#include <set>

#include "runtime/base/sys.h"
#include "runtime/sandbox/slot_sockets.h"
#include "runtime/wire/volume.h"

// Not the packaged library: that is built with exceptions.
#define TOML_EXCEPTIONS 0
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace atl::daemon {
namespace {

constexpr size_t kMaxConfigFile = 1 << 20;

Error Bad(const std::string& value, const std::string& allowed) {
  return Error(Code::kInvalidArgument, "'" + value + "': " + allowed);
}

Result<uint64_t> Number(const std::string& text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < min || value > max) {
    return Fail(
        Bad(text, "use a whole number from " + std::to_string(min) + " to " + std::to_string(max)));
  }
  return value;
}

Result<bool> Truth(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Fail(Bad(text, "use true or false"));
}

Status AbsolutePath(const std::string& text, std::string* out) {
  if (!text.starts_with('/') || text.find("/../") != std::string::npos || text.ends_with("/..") ||
      text.find('\0') != std::string::npos || text == "/") {
    return Fail(Bad(text, "use an absolute path without '..'"));
  }
  *out = text;
  while (out->size() > 1 && out->ends_with('/')) out->pop_back();
  return {};
}

bool IsAddress(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

Status SetHost(const std::vector<std::string>& v, Config* c) {
  if (!IsAddress(v[0])) {
    return Fail(Bad(v[0], "use an IPv4 or IPv6 address, such as 127.0.0.1 or 0.0.0.0"));
  }
  c->host = v[0];
  return {};
}

Status SetPort(const std::vector<std::string>& v, Config* c) {
  ATOLL_ASSIGN(const uint64_t port, Number(v[0], 0, 65535));
  c->port = static_cast<uint16_t>(port);
  return {};
}

Status SetApiKey(const std::vector<std::string>& v, Config* c) {
  // It travels in a header field: visible ASCII, and nothing that could end it.
  for (char ch : v[0]) {
    if (ch <= ' ' || ch > '~') {
      return Fail(Code::kInvalidArgument, "an API key has visible ASCII characters only");
    }
  }
  if (!v[0].empty() && v[0].size() < 8) {
    return Fail(Code::kInvalidArgument, "an API key has at least 8 characters");
  }
  c->api_key = v[0];
  return {};
}

Status SetUser(const std::vector<std::string>& v, Config* c) {
  if (v[0].empty()) return Fail(Bad(v[0], "name a user of this host"));
  c->user = v[0];
  return {};
}

Status SetHostPaths(const std::vector<std::string>& v, Config* c) {
  c->allowed_host_paths.clear();
  for (const std::string& text : v) {
    ATOLL_TRY(AbsolutePath(text, &c->allowed_host_paths.emplace_back()));
    if (!wire::PlainAbsolutePath(c->allowed_host_paths.back())) {
      return Fail(Bad(text, "use an absolute path without '.', '..' and '//'"));
    }
  }
  return {};
}

Status SetPool(const std::vector<std::string>& v, Config* c) {
  ATOLL_ASSIGN(const uint64_t size, Number(v[0], 0, 512));
  c->pool_size = static_cast<uint32_t>(size);
  return {};
}

Status SetLevel(const std::vector<std::string>& v, Config* c) {
  ATOLL_ASSIGN(c->log_level, ParseLogLevel(v[0]));
  return {};
}

std::vector<Key> MakeKeys() {
  using Kind = Key::Kind;
  const auto path = [](std::string Config::*member) {
    return [member](const std::vector<std::string>& v, Config* c) {
      return AbsolutePath(v[0], &(c->*member));
    };
  };
  return {
      {"server", "host", Kind::kText, "address to listen on", SetHost},
      {"server", "port", Kind::kNumber, "port to listen on; 0: any free one", SetPort},
      {"server", "api_key", Kind::kText,
       "key that clients send; without one, the first start makes one (a flag is visible to other "
       "users of this host: prefer the file)",
       SetApiKey},
      {"server", "insecure_no_api_key", Kind::kBool,
       "ask for no key at all: only with a loopback address",
       [](const std::vector<std::string>& v, Config* c) -> Status {
         ATOLL_ASSIGN(c->insecure_no_api_key, Truth(v[0]));
         return {};
       }},
      {"storage", "data_dir", Kind::kText, "images, upper layers, state", path(&Config::data_dir)},
      {"storage", "allowed_host_paths", Kind::kList,
       "directories of this host that volumes may come from (what lies beneath them too); none: no "
       "host volumes",
       SetHostPaths},
      {"runtime", "run_dir", Kind::kText, "sockets", path(&Config::run_dir)},
      {"runtime", "user", Kind::kText, "who the daemon runs as", SetUser},
      {"runtime", "pool_size", Kind::kNumber, "network slots kept ready", SetPool},
      {"runtime", "access_token", Kind::kBool,
       "whether the execd of a new sandbox asks for the token that its endpoint tells; false is "
       "for "
       "clients that cannot send one",
       [](const std::vector<std::string>& v, Config* c) -> Status {
         ATOLL_ASSIGN(c->access_token, Truth(v[0]));
         return {};
       }},
      {"network", "dns", Kind::kList,
       "resolvers that sandboxes' queries are forwarded to, as address or address:port; none: "
       "those "
       "of the host",
       [](const std::vector<std::string>& v, Config* c) -> Status {
         c->dns = v;
         return {};
       }},
      {"log", "level", Kind::kText, "debug, info, warning or error", SetLevel},
  };
}

std::string Where(const std::string& name, const toml::source_region& source) {
  return name + " line " + std::to_string(source.begin.line);
}

// The values of a node as text, if it is of the key's kind.
Result<std::vector<std::string>> ValuesOf(const toml::node& node, Key::Kind kind) {
  switch (kind) {
    case Key::Kind::kText:
      if (const auto text = node.value_exact<std::string>()) return std::vector{*text};
      return Fail(Code::kInvalidArgument, "must be a string in quotes");
    case Key::Kind::kNumber:
      if (const auto number = node.value_exact<int64_t>())
        return std::vector{std::to_string(*number)};
      return Fail(Code::kInvalidArgument, "must be a whole number");
    case Key::Kind::kBool:
      if (const auto truth = node.value_exact<bool>()) {
        return std::vector<std::string>{*truth ? "true" : "false"};
      }
      return Fail(Code::kInvalidArgument, "must be true or false");
    case Key::Kind::kList:
      break;
  }
  std::vector<std::string> values;
  if (const auto text = node.value_exact<std::string>()) return std::vector{*text};
  const toml::array* list = node.as_array();
  if (list == nullptr) return Fail(Code::kInvalidArgument, "must be a list of strings");
  for (const toml::node& item : *list) {
    const auto text = item.value_exact<std::string>();
    if (!text) return Fail(Code::kInvalidArgument, "must be a list of strings");
    values.push_back(*text);
  }
  return values;
}

const Key* FindKey(std::string_view section, std::string_view name) {
  for (const Key& key : Keys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

Status ReadSection(const std::string& name, std::string_view section, const toml::table& table,
                   Loaded* loaded) {
  for (const auto& [key_name, node] : table) {
    const std::string full = std::string(section) + "." + std::string(key_name.str());
    const Key* key = FindKey(section, key_name.str());
    const std::string where = Where(name, node.source());
    if (key == nullptr) {
      loaded->warnings.push_back(where + ": " + full + " is not known and has no effect");
      continue;
    }
    const auto values = ValuesOf(node, key->kind);
    const Status set = values ? key->set(*values, &loaded->config) : Fail(values.error());
    if (!set) {
      return Fail(Code::kInvalidArgument, where + ": " + full + " " + set.error().message());
    }
  }
  return {};
}

}  // namespace

const std::vector<Key>& Keys() {
  static const std::vector<Key> keys = MakeKeys();
  return keys;
}

std::string FlagOf(const Key& key) {
  std::string flag = std::string("--") + key.section + "-" + key.name;
  for (char& c : flag) {
    if (c == '_') c = '-';
  }
  return flag;
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
  std::set<std::string_view> sections;
  for (const Key& key : Keys()) sections.insert(key.section);
  for (const auto& [section, node] : parsed.table()) {
    const toml::table* table = node.as_table();
    if (table == nullptr || !sections.contains(section.str())) {
      loaded.warnings.push_back(Where(name, node.source()) + ": " + std::string(section.str()) +
                                " is not known and has no effect");
      continue;
    }
    ATOLL_TRY(ReadSection(name, section.str(), *table, &loaded));
  }
  return loaded;
}

Result<Loaded> LoadConfig(const std::string& path, bool must_exist) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMaxConfigFile);
  if (!text) {
    if (!must_exist && text.error().code() == Code::kNotFound) return Loaded();
    return Fail(std::move(text).error().Wrap("read the configuration"));
  }
  return ParseConfig(*text, path);
}

Status CheckConfig(const Config& config) {
  if (config.run_dir.size() + std::string_view("/sandboxes").size() >
      sandbox::kMaxSocketDirectory) {
    return Fail(Code::kInvalidArgument,
                "runtime.run_dir '" + config.run_dir +
                    "' is too long for the names of sockets in it: at most " +
                    std::to_string(sandbox::kMaxSocketDirectory - 10) + " characters");
  }
  if (config.insecure_no_api_key && !config.api_key.empty()) {
    return Fail(Code::kInvalidArgument,
                "server.api_key is set, and insecure_no_api_key says to ask for none: choose one");
  }
  if (config.insecure_no_api_key && !IsLoopback(config.host)) {
    return Fail(Code::kInvalidArgument, "insecure_no_api_key would let everybody who reaches " +
                                            config.host +
                                            " run code here: it is for loopback addresses only");
  }
  return {};
}

}  // namespace atl::daemon
