// The table of keys: what each is called in the file, as a flag and in the environment, what it may
// hold, and whether a running daemon can take a new value. And the other table: keys that
// upstream's server knows and that mean nothing here.
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
    kQuantity,  // a number, or text with a unit
    kList,      // of texts
    kRows,  // an array of tables with `fields`; elsewhere each row is its fields with ':' between
  };
  const char* section;  // of nested tables: "ingress.secure_access"
  const char* name;
  Kind kind;
  std::string help;
  // `values`: one, or for kList and kRows any number, as text.
  std::function<Status(const std::vector<std::string>& values, Config*)> set;
  // The same way back: set(get(config)) changes nothing. Null for another name of a key that has
  // it.
  std::function<std::vector<std::string>(const Config&)> get = nullptr;
  bool live = false;    // SIGHUP can change it
  bool secret = false;  // never shown: get of an empty one gives nothing or ""
  std::vector<const char*> fields = {};
};
const std::vector<Key>& Keys();

std::string FullName(const Key& key);       // "server.port"
std::string FlagOf(const Key& key);         // "--server-port"
std::string EnvironmentOf(const Key& key);  // "ATOLL_SERVER_PORT"

// Why a key or a whole section of upstream's ("docker.network_mode", "kubernetes") has no effect
// here, and what to use in its place; null if upstream has no such key either.
const char* WhyForeign(std::string_view name);

}  // namespace atl::daemon
