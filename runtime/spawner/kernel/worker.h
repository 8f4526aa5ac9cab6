// How the spawner forks: whatever works beside it begins here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

struct Worker {
  const char* name;         // for ps
  int nice = 0;             // 0: the parent's
  uint64_t namespaces = 0;  // CLONE_NEW…, which the worker is born in
  int cgroup = -1;          // a cgroup v2 directory, likewise; -1: the parent's
  bool outlives = false;    // the worker goes on when its parent dies
};

// Forks. The child has no signal blocked, and of the parent's descriptors above 2 only `keep`,
// under the same numbers: by a copy of another one it would hold open what tells others by its end
// that the spawner has closed it (the daemon's connection, the gates and the builder of slots).
// Then it runs `work`; when that returns, it exits with status 0.
Result<pid_t> StartWorker(const Worker& worker, std::vector<int> keep,
                          const std::function<void()>& work);

// Has the kernel kill this worker when its parent dies, and ends it if the parent is dead already.
// StartWorker does it first; whoever changes the ids of a worker does it again, because the kernel
// forgets the wish with every such change. A no-op in any other process. In a pid namespace of its
// own a worker cannot see whether the parent is dead.
void EndWithParent();

// Nobody else may look into this process's memory, nor dump it. To be said again behind every
// change of ids, by this process or by one that shares its memory: the kernel then puts
// fs.suid_dumpable in place of it.
void StayUndumpable();

// Waits until a child has ended, but not longer than `patience_ms`, and reaps it. False: it lives
// on, and the loop reaps it when it ends (Server::OnSignal).
bool AwaitEnd(pid_t child, int patience_ms);

}  // namespace atl::spawner
