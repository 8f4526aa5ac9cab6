// Publishes ports of a sandbox on 127.0.0.1 for the life of the sandbox ('atoll run -p').
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/verbs/port_forward.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// A parsed -p value: PORT, HOST:PORT, ADDRESS:HOST:PORT or ADDRESS::PORT, as in docker; "/tcp" may
// follow. ADDRESS is 127.0.0.1 or localhost.
struct Published {
  int local = -1;  // 0: any free port; -1: no local port, print the server's endpoint
  int inside = 0;
};
Result<Published> ReadPublished(const std::string& given);

// Listens on the ports of 127.0.0.1 in `given`. Call it before the sandbox is created, so that a
// port in use refuses the run.
Result<std::vector<LocalPort>> ListenFor(const Words& given);

// Starts a process that forwards the ports, if there are any. It ends within two seconds after the
// sandbox, when the server has refused its key for a minute, or when the server has been silent for
// an hour. It takes the new key if the key's file has another one. Call it while this process has
// one thread, because it forks.
Status Publish(const Settings& settings, const std::string& sandbox_id,
               std::vector<LocalPort> ports);

}  // namespace atl::cli
