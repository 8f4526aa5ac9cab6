// The API requests that the measurements send, as any client of the API would send them.
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
  std::string execd_path;       // path of execd's API through the proxy
  std::string command_path;     // path of execd's /command
  std::string command_headers;  // header with execd's access token
};

struct CommandMicros {
  int64_t first = 0;     // request sent → its output has arrived
  int64_t complete = 0;  // request sent → end of the event stream
};

class SandboxApi {
 public:
  static Result<SandboxApi> Connect(uint16_t port, const std::string& key);

  // Creates a sandbox that idles until it is deleted, with network. `limits` is JSON. `members` is
  // more JSON for the request, with a comma before each member. Call FindExecd before the first
  // command.
  Result<Sandbox> Create(const std::string& image, const std::string& limits = "{}",
                         const std::string& members = "");
  // Likewise, but claims a sandbox of a pool.
  Result<Sandbox> Claim(const std::string& pool, const std::string& limits = "{}");
  // Creates a pool that keeps `parked` sandboxes of the image ready.
  Status MakePool(const std::string& name, const std::string& image, int parked);
  // Blocks until the pool has `parked` ready sandboxes.
  Status AwaitParked(const std::string& pool, int parked);
  // Sends GET …/endpoints/44772. Fills in the paths and the token for commands.
  Status FindExecd(Sandbox* sandbox);
  // Runs `echo hi` in the sandbox and times it.
  Result<CommandMicros> Echo(const Sandbox& sandbox);
  Status Delete(const Sandbox& sandbox);

  Status ImportImage(const std::string& name, const std::string& archive);
  // Sends GET /v1/metrics. Returns the value of each metric by its name with labels.
  Result<std::map<std::string, double>> Metrics();
  // Blocks until the pool of network slots is full and the disk has written the changes of earlier
  // requests. Otherwise a measured create would wait for the journal of the creates before it.
  Status AwaitQuiet();
  // Ends every sandbox and the daemon.
  Status Shutdown();

 private:
  explicit SandboxApi(LeanClient client) : client_(std::move(client)) {}
  LeanClient client_;
};

}  // namespace atl::bench
