// The requests that are measured, as a client of the API makes them.
//
// Thread rule: one thread per object.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "bench/lean_client.h"
#include "runtime/base/result.h"

namespace atl::bench {

struct Sandbox {
  std::string id;
  std::string execd_path;       // of execd, through the proxy
  std::string command_path;     // of its /command
  std::string command_headers;  // its access token
};

struct CommandMicros {
  int64_t first = 0;     // request sent → the bytes of its output are here
  int64_t complete = 0;  // request sent → end of the event stream
};

class SandboxApi {
 public:
  static Result<SandboxApi> Connect(uint16_t port, const std::string& key);

  // Idles until deleted; default limits or those (JSON), network on. `execd` not asked for yet.
  // `members`: more of the request, each with a comma before it.
  Result<Sandbox> Create(const std::string& image, const std::string& limits = "{}",
                         const std::string& members = "");
  // Likewise, of a pool.
  Result<Sandbox> Claim(const std::string& pool);
  // Keeps that many sandboxes of the image parked.
  Status MakePool(const std::string& name, const std::string& image, int parked);
  // Waits until they are.
  Status AwaitParked(const std::string& pool, int parked);
  // GET …/endpoints/44772: where commands go, and the token that they need.
  Status FindExecd(Sandbox* sandbox);
  // `echo hi`
  Result<CommandMicros> Echo(const Sandbox& sandbox);
  Status Delete(const Sandbox& sandbox);

  Status ImportImage(const std::string& name, const std::string& archive);
  // GET /v1/metrics: name, with labels → value.
  Result<std::map<std::string, double>> Metrics();
  // Waits until the pool of network slots is as full as it gets, and the disk has what it was
  // given: a create would else wait for the journal of those before it.
  Status AwaitQuiet();
  // Ends every sandbox and the daemon.
  Status Shutdown();

 private:
  explicit SandboxApi(LeanClient client) : client_(std::move(client)) {}
  LeanClient client_;
};

}  // namespace atl::bench
