// Settings of all verbs: the server, its key, the form of output.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace atl::cli {

// The values from the command line or the environment; empty if not given.
struct Settings {
  std::string server;
  std::string api_key;
  std::string api_key_file;
  std::string cacert;  // PEM file of authorities; empty: the host's
  std::string run_dir = "/run/atoll";
  std::string tenant;  // an admin means names of this tenant; empty: of the host
  std::string reason;  // why an admin enters a sandbox of another tenant
  bool json = false;
};

struct Server {
  std::string url;
  std::string api_key;  // empty: no key is sent
};

// Returns the server of the settings, else the local daemon. The local daemon publishes its address
// and the name of its key file in <run_dir>/daemon.json. The local key is never sent to a server
// that was named explicitly. Without a key, the server gets the token of the user's sign-in there
// (login.h), which is renewed if need be.
Result<Server> FindServer(const Settings& settings);
// Returns the address of the same server, without a look at keys and sign-ins.
Result<std::string> FindServerUrl(const Settings& settings);

}  // namespace atl::cli
