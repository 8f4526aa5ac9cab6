// The table of configuration keys: the name in the file, as a flag and in the environment, the
// allowed values, and whether a running daemon can apply a new value. A second table has the keys
// of upstream's server that have no effect here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/daemon/config.h"

namespace atl::daemon {

struct Key {
  enum class Kind {
    kText,
    kNumber,
    kBool,
    kQuantity,  // a number, or a text with a unit
    kList,      // a list of texts
    // an array of tables with `fields`; outside of the file, the fields of a row joined by ':'
    kRows,
  };
  const char* section;  // nested tables: "ingress.secure_access"
  const char* name;
  Kind kind;
  std::string help;
  // `values`: one text; any number for kList and kRows.
  std::function<Status(const std::vector<std::string>& values, Config*)> set;
  // The inverse: set(get(config)) changes nothing. Null if the key is another name of a key that
  // has one.
  std::function<std::vector<std::string>(const Config&)> get = nullptr;
  bool live = false;    // SIGHUP can change it
  bool secret = false;  // never shown: get of an unset one returns nothing or ""
  std::vector<const char*> fields = {};
};
const std::vector<Key>& Keys();

std::string FullName(const Key& key);       // "server.port"
std::string FlagOf(const Key& key);         // "--server-port"
std::string EnvironmentOf(const Key& key);  // "ATOLL_SERVER_PORT"

// Returns why a key or section of upstream ("docker.network_mode", "kubernetes") has no effect
// here, and what to use instead. Null if upstream has no such key.
const char* WhyForeign(std::string_view name);

}  // namespace atl::daemon
