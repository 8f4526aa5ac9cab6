// atoll-intercept: puts the credentials of one sandbox into its requests. The spawner starts it
// with its line to the daemon as descriptor 3. See README.md in this folder.
#include <fcntl.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "netpolicy/intercept/program.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/http/tls_memory.h"

int main() {
  using namespace atl;
  OpenStandardStreams();
  if (::fcntl(intercept::kLineFd, F_GETFD) < 0) {
    std::fputs("atoll-intercept: started by atoll-spawner, for a sandbox with a credential vault\n",
               stderr);
    return 2;
  }
  InitLog("atoll-intercept", LogLevel::kInfo);
  ::signal(SIGPIPE, SIG_IGN);
  Status run = http::WipeTlsMemory();
  if (run) run = intercept::Run(UniqueFd(intercept::kLineFd));
  if (!run) {
    LogLine(LogLevel::kError, "cannot intercept").Add(run.error());
    return 1;
  }
  // Skips destructors: the kernel frees everything.
  std::_Exit(0);
}
