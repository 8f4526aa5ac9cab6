// The measurements of bench/network, one function each: what a policy costs the one who gives it,
// the one who creates, and the one who sends. An error ends the run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/own_daemon.h"
#include "bench/samples.h"
#include "bench/sandbox_api.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

inline constexpr char kNetworkImage[] = "bench-busybox:1";
inline constexpr char kServerAddress[] = "203.0.113.2";

// `rules` of them, half names, half prefixes; the server is one, and the only one that two variants
// have in common.
std::string PolicyJson(int rules, int variant = 0);

// The API of a sandbox's policy.
struct PolicyApi {
  std::string path;     // of /policy
  std::string headers;  // its token
};
Result<PolicyApi> FindPolicyApi(LeanClient& client, const std::string& sandbox);

struct ApplyTimes {
  Samples round_trip;  // GET /healthz of the same API: what HTTP costs
  Samples put;         // another policy each time
};
// In turn.
Result<ApplyTimes> MeasureApply(LeanClient& client, const PolicyApi& policy,
                                const std::pair<std::string, std::string>& bodies, int count);

struct CreateTimes {
  Samples plain, policed;  // alternately, with rest before each
};
Result<CreateTimes> MeasureCreates(SandboxApi& api, int rules, int count);

// Until `total` more live, each with a policy of so many rules.
Status FillPoliced(const OwnDaemon& daemon, int total, int rules);

// The daemon's host and its neighbourhood, made of namespaces of this process:
//
//   plain sender ── plain router ──┐
//                                  ├── server
//   sandbox ══ the daemon's host ──┘
class TrafficLab {
 public:
  // Moves the calling process into the host's namespace, for good.
  static Result<std::unique_ptr<TrafficLab>> Start();
  TrafficLab(const TrafficLab&) = delete;
  TrafficLab& operator=(const TrafficLab&) = delete;
  ~TrafficLab();

  // Bytes a second of one new connection, from the plain sender or from the namespace of `pid`.
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
