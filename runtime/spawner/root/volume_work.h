// Opens and mounts volumes, each time in a process beside the spawner. A path of the host may lead
// to a file system whose server does not answer (NFS, FUSE), and a call that waits for that server
// may never return, even if the process is killed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/root/root_child.h"
#include "runtime/wire/volume.h"

namespace atl::spawner {

class VolumeWork {
 public:
  using Work = std::function<RootReport()>;
  using Done = std::function<void(const RootReport&)>;

  VolumeWork(const Host& host, EventLoop& loop) : host_(host), loop_(loop) {}

  // Runs `work` in a new process, which keeps only the host's descriptors and `keep`. The report is
  // kUnavailable after ten seconds, and at once while earlier work on the same allowed directory
  // has not come back. `sandbox`: for Cancel; may be empty.
  void Start(std::string sandbox, const std::vector<wire::Volume>& volumes, std::vector<int> keep,
             const Work& work, Done done);
  // Ends the work for that sandbox, if there is any; its report says so.
  void Cancel(const std::string& sandbox);
  // Ends all work, without calling anybody's `done`.
  void Abandon();
  // Returns true if `pid` was one of these processes.
  bool OnChildExit(pid_t pid);

 private:
  struct Run {
    std::string sandbox;
    std::set<std::string> places;  // allowed directories that it opens
    UniqueFd report;
    EventLoop::Id patience = 0;
    Done done;  // null: given up, and has not ended yet
  };

  const Host& host_;
  EventLoop& loop_;
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
