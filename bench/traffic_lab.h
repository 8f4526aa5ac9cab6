// A network of namespaces of this process, with the daemon's host in the middle, and flows through
// it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

inline constexpr char kServerAddress[] = "203.0.113.2";

//   plain sender ── plain router ──┐
//                                  ├── server
//   sandbox ══ the daemon's host ──┘
class TrafficLab {
 public:
  // Builds the network. Moves the calling process into the host's namespace and never moves it
  // back.
  static Result<std::unique_ptr<TrafficLab>> Start();
  TrafficLab(const TrafficLab&) = delete;
  TrafficLab& operator=(const TrafficLab&) = delete;
  ~TrafficLab();

  // Transfers `size` bytes over one new connection. Returns bytes per second. FromPlain connects
  // from the plain sender, FromProcess from the network namespace of `pid`.
  enum class Direction : uint8_t { kUp, kDown };
  Result<double> FromPlain(Direction direction, uint64_t size);
  Result<double> FromProcess(pid_t pid, Direction direction, uint64_t size);

 private:
  TrafficLab() = default;
  Result<double> Transfer(const UniqueFd& netns, Direction direction, uint64_t size);

  UniqueFd host_, plain_;
  pid_t server_ = -1;
};

}  // namespace atl::bench
