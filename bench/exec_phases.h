// The measurements of bench/exec, one function each: what a client of a live sandbox's exec API
// sees, and what its execd costs. An error ends the run.
#pragma once

#include <cstdint>
#include <string>

#include "bench/own_daemon.h"
#include "bench/relay.h"
#include "bench/samples.h"
#include "bench/sandbox_api.h"
#include "runtime/base/result.h"

namespace atl::bench {

struct ProgramResults {
  uint64_t stripped_bytes = 0;
  uint64_t idle_kib = 0;  // anonymous memory of an execd that has served one command
  Samples parked;         // spawned → it has read that its control socket is closed, and ended
};
Result<ProgramResults> MeasureProgram(const OwnDaemon& daemon, const std::string& execd);

struct FileResults {
  Samples write, read;     // 64 KiB, one request each
  Samples calls_a_second;  // of 300 in a row on one connection; in thousands
};
Result<FileResults> MeasureFiles(const OwnDaemon& daemon, const Sandbox& sandbox, int count);

struct TransferResults {
  // MiB a second, round by round.
  Samples relay_up, relay_down, up, down;
};
// The relay and the daemon take turns.
Result<TransferResults> MeasureTransfers(const OwnDaemon& daemon, Relay& relay,
                                         const Sandbox& sandbox, uint64_t size, int rounds);

// That many commands at once, each on its own connection and thread, each with output and exit code
// of its own; an error if one is wrong. The wall time of each round.
Result<Samples> MeasureCommandsAtOnce(const OwnDaemon& daemon, const Sandbox& sandbox, int commands,
                                      int rounds);

}  // namespace atl::bench
