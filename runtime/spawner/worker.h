// What a process that the spawner forks to work beside it does first.
#pragma once

#include <initializer_list>

namespace atl::spawner {

// For the child of a fork: it is `name` for ps, ends with the spawner, has this nice value and no
// signal blocked. Of what the spawner has open only `keep` stays, as 3, 4, … in that order, closed
// on exec: the daemon's connection and the gates of slots tell by their end that the spawner's copy
// has ended. Ends the child if a descriptor cannot be kept.
void BecomeWorker(const char* name, int nice, std::initializer_list<int> keep);

}  // namespace atl::spawner
