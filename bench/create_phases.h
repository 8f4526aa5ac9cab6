// The measurements of bench/create, one function each. An error ends the run: a daemon that refuses
// a create is not worth timing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/own_daemon.h"
#include "bench/peers.h"
#include "bench/samples.h"
#include "bench/sandbox_api.h"
#include "runtime/base/result.h"

namespace atl::bench {

inline constexpr int kRestMs = 30;
inline constexpr char kBusyboxImage[] = "bench-busybox:1";
inline constexpr char kDebianImage[] = "bench-debian:12";

// A cold create as its client sees it; every sample counts from the create's first byte.
struct Cold {
  Samples created;                            // the create is answered
  Samples execd;                              // it is known where commands go
  Samples first;                              // the first command's output is here
  Samples deleted;                            // by itself: the delete is answered
  std::map<std::string, double> step_micros;  // mean of each of the spawner's steps
  double build_micros = 0;                    // mean, from the daemon's side
};
struct PeerTimes {
  std::string name;
  std::string missing;
  Samples rested, flat;
};
struct ColdResults {
  std::map<std::string, Cold> rested, flat;  // by image
  std::vector<PeerTimes> peers;
};
// With rest between, Atoll and its peers take turns. Flat out each runs alone.
Result<ColdResults> MeasureCold(SandboxApi& api, Peers& peers, int count);

struct ExecResults {
  CommandTimes sh_rested, sh_flat;       // busybox image
  CommandTimes bash_rested, bash_flat;   // Debian image
  Samples host_sh_rested, host_sh_flat;  // the same commands without a sandbox
  Samples host_bash_rested, host_bash_flat;
};
Result<ExecResults> MeasureExec(SandboxApi& api, int count);

struct DeleteResults {
  Samples answered;
  Samples gone;  // delete sent → nothing is left on the host
};
Result<DeleteResults> MeasureDelete(const OwnDaemon& daemon, SandboxApi& api, int count);

struct Burst {
  int size = 0;
  int failed = 0;
  std::string error;  // of the first that failed
  Samples wall;       // first create sent → last output here, one for each round
  Samples created, first;
};
Result<Burst> MeasureBurst(const OwnDaemon& daemon, SandboxApi& api, int size, int rounds);

struct Throughput {
  int clients = 0;
  double per_second = 0;
};
Result<Throughput> MeasureThroughput(const OwnDaemon& daemon, SandboxApi& api, int clients,
                                     int seconds);

struct Idle {
  int sandboxes = 0;
  // KiB for each sandbox
  double atolld = 0, spawner = 0, execd = 0;  // growth of PSS; PSS
  double kernel = 0;
  double available = 0;  // how far MemAvailable fell: all of it, the entrypoint too
};
Result<Idle> MeasureIdle(const OwnDaemon& daemon, SandboxApi& api, int sandboxes);

}  // namespace atl::bench
