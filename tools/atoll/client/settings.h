// What all verbs share: where the server is, which key it wants, how output looks.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace atl::cli {

// As given on the command line or in the environment; empty where not.
struct Settings {
  std::string server;
  std::string api_key;
  std::string api_key_file;
  std::string cacert;  // authorities of an https server, in a PEM file; empty: those of the host
  std::string run_dir = "/run/atoll";
  bool json = false;
};

struct Server {
  std::string url;
  std::string api_key;  // empty: none is sent
};

// From the settings, or of the local daemon, which leaves its address and the name of its key file
// in <run_dir>/daemon.json. The local key is never sent to a server that was named explicitly.
Result<Server> FindServer(const Settings& settings);

}  // namespace atl::cli
