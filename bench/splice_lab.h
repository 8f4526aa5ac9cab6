// A sandbox, a router with the splice proxy, and a server: three network namespaces, joined by veth
// pairs, with a process in each. The router forwards connections to one port of the server and
// redirects those to another port to its proxy. Nothing else differs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

enum class Path : uint8_t { kForwarded, kSpliced };
enum class Direction : uint8_t { kUp, kDown };

struct Transfer {
  double bytes_a_second = 0;
  double busy_cores = 0;  // CPU use of the whole machine, interrupts included
};

class SpliceLab {
 public:
  // Builds the lab. Moves the calling process into the sandbox's namespace and never moves it back.
  static Result<std::unique_ptr<SpliceLab>> Start();
  SpliceLab(const SpliceLab&) = delete;
  SpliceLab& operator=(const SpliceLab&) = delete;
  // Ends the processes; the namespaces end with them.
  ~SpliceLab();

  // Transfers `size` bytes over each of `connections` new connections at once. Measures from the
  // first byte to the last.
  Result<Transfer> Measure(Path path, Direction direction, uint64_t size, size_t connections);
  // Returns the microseconds from connect to the first byte of an answer.
  Result<int64_t> FirstByte(Path path);

 private:
  SpliceLab() = default;
  static Result<UniqueFd> Connect(Path path);
  static Status Carry(Path path, Direction direction, uint64_t size);

  pid_t server_ = -1, proxy_ = -1;
};

}  // namespace atl::bench
