// A sandbox, a router with the splice proxy, and a server: three network namespaces, joined by veth
// pairs, and a process in each. Connections to one port of the server are forwarded by the router,
// those to another are redirected to its proxy; nothing else differs.
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
  double busy_cores = 0;  // of the whole machine, interrupts included
};

class SpliceLab {
 public:
  // Moves the calling process into the namespace of the sandbox, for good.
  static Result<std::unique_ptr<SpliceLab>> Start();
  SpliceLab(const SpliceLab&) = delete;
  SpliceLab& operator=(const SpliceLab&) = delete;
  // Ends the processes; the namespaces end with them.
  ~SpliceLab();

  // `size` bytes over each of so many new connections at once, from the first byte to the last.
  Result<Transfer> Measure(Path path, Direction direction, uint64_t size, size_t connections);
  // Microseconds from connect to the first byte of an answer.
  Result<int64_t> FirstByte(Path path);

 private:
  SpliceLab() = default;
  static Result<UniqueFd> Connect(Path path);
  static Status Carry(Path path, Direction direction, uint64_t size);

  pid_t server_ = -1, proxy_ = -1;
};

}  // namespace atl::bench
