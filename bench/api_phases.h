// The measurements of bench/api, one function each: what the daemon's own routes cost, with few
// sandboxes and with many. An error ends the run.
#pragma once

#include <string>
#include <vector>

#include "bench/own_daemon.h"
#include "bench/samples.h"
#include "bench/sandbox_api.h"
#include "runtime/base/result.h"

namespace atl::bench {

inline constexpr char kApiImage[] = "bench-busybox:1";

struct RouteTimes {
  Samples create, get, list;  // list: pages of 20, of as many sandboxes as there are
};
// With rest before each create; what it creates it deletes. `any` is some sandbox that lives.
Result<RouteTimes> MeasureRoutes(SandboxApi& api, LeanClient& client, const std::string& any,
                                 int count);

struct Rate {
  double per_second = 0;
  double per_cpu_second = 0;  // of the daemon's own processor time: what one core of its own does
};
// GET `path` over that many keep-alive connections, one request under way on each, for a time.
Result<Rate> MeasureRate(const OwnDaemon& daemon, const std::string& key, const std::string& path,
                         int connections, int milliseconds);

// Until `total` sandboxes live, on some connections at once.
Result<std::vector<Sandbox>> Fill(const OwnDaemon& daemon, int total);

// GET of a sandbox while as many streams stand still, each full of output that nobody reads.
Result<Samples> MeasureBesideStuckStreams(const OwnDaemon& daemon, LeanClient& client,
                                          const Sandbox& flooding, const std::string& any,
                                          int streams, int count);

}  // namespace atl::bench
