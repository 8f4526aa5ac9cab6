// The spawner's only fork: every process beside it starts here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

struct Worker {
  const char* name;         // shown by ps
  int nice = 0;             // 0: the parent's
  uint64_t namespaces = 0;  // CLONE_NEW… flags of the worker's birth
  int cgroup = -1;          // a cgroup v2 directory to be born in; -1: the parent's
  bool outlives = false;    // the worker lives on when its parent dies
};

// Forks, runs `work` in the child, and exits with status 0 when it returns. The child has no signal
// blocked. Of the parent's descriptors above 2 it has only `keep`, under the same numbers. A copy
// of any other would hide from the peer that the spawner has closed its own: the daemon's
// connection, the gates and the builder's socket tell by their end.
Result<pid_t> StartWorker(const Worker& worker, std::vector<int> keep,
                          const std::function<void()>& work);

// Asks the kernel to kill this worker when its parent dies, and ends it now if the parent is dead
// already. StartWorker calls it first. Whoever changes the ids of a worker calls it again, because
// the kernel forgets the wish with every such change. In any other process it does nothing. A
// worker in a pid namespace of its own cannot see whether the parent is dead.
void EndWithParent();

// Makes this process's memory unreadable for others, and undumpable. Call it again after every
// change of ids, by this process or by one that shares its memory: the kernel then sets the flag
// back to fs.suid_dumpable.
void StayUndumpable();

// Waits until a child has ended, for at most `patience_ms`, and reaps it. Returns false if it has
// not ended; the loop then reaps it (Server::OnSignal).
bool AwaitEnd(pid_t child, int patience_ms);

}  // namespace atl::spawner
