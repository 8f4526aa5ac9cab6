// Ports of 127.0.0.1 that 'atoll run -p' makes a sandbox's, for as long as the sandbox lives.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/verbs/port_forward.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// PORT, HOST:PORT, ADDRESS:HOST:PORT and ADDRESS::PORT, as docker reads them; "/tcp" may follow.
// ADDRESS is 127.0.0.1 or localhost.
struct Published {
  int local = -1;  // 0: any free one; -1: none, the server's endpoint is told
  int inside = 0;
};
Result<Published> ReadPublished(const std::string& given);

// Listens on the ports of 127.0.0.1 that `given` asks for. Called before the sandbox is made: a
// port that is taken refuses the run.
Result<std::vector<LocalPort>> ListenFor(const Words& given);

// Starts a process that carries the ports' connections, unless there are none. It ends within a
// second of the sandbox, and after `seconds` in any case. Call it while this process has one
// thread.
Status Publish(const Settings& settings, const std::string& sandbox_id,
               std::vector<LocalPort> ports, int seconds);

}  // namespace atl::cli
