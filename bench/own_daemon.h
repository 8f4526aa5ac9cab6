// An atolld with directories of its own and a free port, and its spawner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/sandbox_api.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

class OwnDaemon {
 public:
  // Starts `program` as root. The daemon itself drops to the user that owns the sandboxes' sockets.
  // `options` are added to those for its own directories and port.
  static Result<std::unique_ptr<OwnDaemon>> Start(const std::string& program,
                                                  const std::vector<std::string>& options = {});
  OwnDaemon(const OwnDaemon&) = delete;
  OwnDaemon& operator=(const OwnDaemon&) = delete;
  // Ends the sandboxes, the daemon and the spawner, and removes the directories. If this process
  // dies first, a helper process does all this.
  ~OwnDaemon();

  Result<SandboxApi> Connect() const { return SandboxApi::Connect(port_, key_); }
  uint16_t port() const { return port_; }
  const std::string& key() const { return key_; }
  pid_t pid() const { return pid_; }
  // Process ids of the spawner and of its workers.
  const std::vector<pid_t>& spawner() const { return spawner_; }
  const std::string& top() const { return top_; }
  std::string data_dir() const { return top_ + "/data"; }

 private:
  OwnDaemon() = default;
  Status Begin(const std::string& program, const std::vector<std::string>& options);
  Status AwaitAnswer();
  Status FindSpawner();
  Status Guard();
  void End() const;

  std::string top_;
  std::string run_dir_;
  pid_t pid_ = -1;
  pid_t guard_ = -1;
  UniqueFd alive_;  // the helper process sees it close when this process ends
  uint16_t port_ = 0;
  std::string key_;
  std::vector<pid_t> spawner_;
};

}  // namespace atl::bench
