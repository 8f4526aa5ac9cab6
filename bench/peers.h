// Programs that others start sandboxes with, measured beside Atoll: crun, runc and bubblewrap, each
// with the same busybox root file system and the same command, without network, seccomp list,
// overlay or exec daemon, and with whatever else they do by default.
//
// They run from a thread with a mount namespace of its own: crun refuses hybrid hosts ("hybrid mode
// not supported"), so the v2 hierarchy beside v1 controllers is not mounted there, and their state
// is on a tmpfs as it would be in /run.
//
// Thread rule: one thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/process.h"
#include "runtime/base/result.h"

namespace atl::bench {

class Peers {
 public:
  struct Peer {
    std::string name;     // "crun run"
    std::string missing;  // why it cannot run here; empty: it can
  };

  // `directory` is filled with bundles; its owner removes it.
  static Result<std::unique_ptr<Peers>> Open(const std::string& directory);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers();

  const std::vector<Peer>& all() const { return peers_; }
  Result<RunMicros> Run(size_t peer);

 private:
  explicit Peers(std::string directory) : directory_(std::move(directory)) {}
  void Serve();
  Status InThread(const std::function<Status()>& job);
  Status Prepare();
  Status MakeRoot() const;
  Status MakeBundle(const std::string& runtime) const;
  std::vector<std::string> CommandOf(const std::string& program);
  Result<RunMicros> RunHere(const std::string& program);

  std::string directory_;
  std::vector<Peer> peers_;
  uint64_t runs_ = 0;

  std::mutex mutex_;  // of the three below
  std::condition_variable changed_;
  std::function<void()> job_;  // what the thread does next
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace atl::bench
