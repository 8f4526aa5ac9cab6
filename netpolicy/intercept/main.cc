// atoll-intercept: puts the credentials of one sandbox into its requests. The daemon starts it with
// its line as descriptor 3. See README.md in this folder.
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "netpolicy/intercept/program.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/http/tls_memory.h"

int main(int argc, char** argv) {
  using namespace atl;
  OpenStandardStreams();
  if (argc != 2) {
    std::fputs("atoll-intercept: started by atolld, for a sandbox with a credential vault\n",
               stderr);
    return 2;
  }
  InitLog("atoll-intercept", LogLevel::kInfo);
  ::signal(SIGPIPE, SIG_IGN);
  Status run = http::WipeTlsMemory();
  if (run) run = intercept::Run(UniqueFd(intercept::kLineFd), argv[1]);
  if (!run) {
    LogLine(LogLevel::kError, "cannot intercept").Add(run.error());
    return 1;
  }
  // Skips destructors: the kernel frees everything.
  std::_Exit(0);
}
