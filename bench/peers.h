// Other programs that start sandboxes, measured beside Atoll. Each gets the same busybox root file
// system and the same command. None gets a network, an overlay or an exec daemon. Everything else
// is the program's default.
//
// They run on a thread with a mount namespace of its own. crun refuses hybrid hosts ("hybrid mode
// not supported"), so that namespace has no v2 hierarchy beside v1 controllers. The programs' state
// is on a tmpfs there, as it would be in /run.
//
// Thread rule: one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/own_thread.h"
#include "bench/process.h"
#include "runtime/base/result.h"

namespace atl::bench {

inline const std::vector<std::string> kPeers = {"bwrap", "crun", "runc", "podman", "docker"};

class Peers {
 public:
  // Writes the bundles into `directory`. The caller removes it.
  static Result<std::unique_ptr<Peers>> Open(const std::string& directory);
  ~Peers();

  // Returns why a peer cannot run here. Empty: it can.
  const std::string& missing(const std::string& peer) const { return missing_.at(peer); }
  Result<RunMicros> Run(const std::string& peer);

 private:
  explicit Peers(std::string directory) : directory_(std::move(directory)) {}
  Status Prepare();
  Status Try(const std::string& peer);
  Status MakeRoot() const;
  Status MakeBundle(const std::string& runtime) const;
  std::vector<std::string> CommandOf(const std::string& peer);
  Result<RunMicros> RunHere(const std::string& peer);

  std::string directory_;
  std::map<std::string, std::string> missing_;
  uint64_t runs_ = 0;
  OwnThread thread_;
};

}  // namespace atl::bench
