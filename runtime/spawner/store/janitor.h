// Deletes what is left of sandboxes and layers, in a process of its own: a tree of a million files
// must not hold up the next build.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

// Things to delete are renamed into the trash directory; every entry of it is deleted, also those
// that an earlier janitor left.
class Janitor {
 public:
  // Forks. `store` is borrowed; "trash" beneath it is created.
  static Result<Janitor> Start(int store);

  // Moves `path` (beneath the store) into the trash and has it deleted. An absent path is not an
  // error. Returns when the rename is done. `as`, without dots, is what
  // Holds is asked for.
  Status Discard(int store, const std::string& path, const std::string& as = "");
  // Whether anything of what was discarded under that name is still there.
  static bool Holds(int store, const std::string& as);

  // Ends it, for the janitor of the next spawner; waits a second at most.
  void Abandon();
  // Lets it finish, and waits for that, for 20 seconds at most.
  void Finish();

  pid_t pid() const { return pid_; }

 private:
  Janitor(pid_t pid, UniqueFd wake) : pid_(pid), wake_(std::move(wake)) {}

  pid_t pid_;
  UniqueFd wake_;  // one byte: look again; end of file: finish and exit
  uint64_t counter_ = 0;
};

}  // namespace atl::spawner
