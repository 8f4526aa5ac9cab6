// The daemon's configuration: a TOML file, and flags that say the same things again. One table
// (Keys) gives the keys of the file, the flags and their help.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/result.h"

namespace atl::daemon {

struct Config {
  // [server]
  std::string host = "127.0.0.1";  // a literal address
  uint16_t port = 8080;            // 0: any free one (daemon.json tells which)
  std::string api_key;             // empty: made at the first start
  bool insecure_no_api_key = false;
  // [storage]
  std::string data_dir = "/var/lib/atoll";
  // [runtime]
  std::string run_dir = "/run/atoll";
  std::string user = "atoll";
  uint32_t pool_size = 8;  // network slots kept ready
  bool access_token = true;
  // Limits are ceilings, and most sandboxes stay far below theirs: the sum of all of them may be
  // this many times what the host has. 0: no bound but what is really free.
  double overcommit = 32;
  // [network]
  std::vector<std::string> dns;  // upstream resolvers; empty: the host's
  // [log]
  LogLevel log_level = LogLevel::kInfo;
};

inline constexpr char kDefaultConfigPath[] = "/etc/atoll/atoll.toml";

// A key of the file; its flag is "--section-name" with '-' for '_'.
struct Key {
  enum class Kind { kText, kNumber, kBool, kList };
  const char* section;
  const char* name;
  Kind kind;
  const char* help;
  // `values`: one, or for kList any number, as text.
  std::function<Status(const std::vector<std::string>& values, Config*)> set;
};
const std::vector<Key>& Keys();
std::string FlagOf(const Key& key);
bool IsLoopback(const std::string& host);

struct Loaded {
  Config config;
  std::vector<std::string> warnings;  // one for each key that is not known
};
// Reads `path` over the defaults; `must_exist` false: a missing file is no error. Errors name file,
// line, key and value.
Result<Loaded> LoadConfig(const std::string& path, bool must_exist);
// The same from text; `name` stands for the file in errors.
Result<Loaded> ParseConfig(std::string_view text, const std::string& name);
// Rules over several keys; after the flags.
Status CheckConfig(const Config& config);

}  // namespace atl::daemon
