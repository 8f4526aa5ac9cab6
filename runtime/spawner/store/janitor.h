// Deletes the files of ended sandboxes and removed layers in a process of its own, because a tree
// of a million files must not delay the next build.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

// Files to delete are renamed into the trash directory. The janitor deletes every entry there, also
// those that an earlier one left.
class Janitor {
 public:
  // Forks. `store` is borrowed; "trash" beneath it is created.
  static Result<Janitor> Start(int store);

  // Moves `path` (beneath the store) into the trash and has it deleted. Returns when the rename is
  // done. An absent path is not an error. `as`, without dots: the name for Holds.
  Status Discard(int store, const std::string& path, const std::string& as = "");
  // Returns whether anything that was discarded under that name is still there.
  static bool Holds(int store, const std::string& as);

  // Ends the process, for the janitor of the next spawner; waits a second at most.
  void Abandon();
  // Lets the process empty the trash, and waits for that, for 20 seconds at most.
  void Finish();

  // Call when the process has ended: its number may soon be another's.
  void OnExit() { pid_ = 0; }

  // Returns 0 if there is no process at present.
  pid_t pid() const { return pid_; }

 private:
  Janitor(pid_t pid, UniqueFd wake) : pid_(pid), wake_(std::move(wake)) {}

  pid_t pid_;
  UniqueFd wake_;  // one byte: look again; end of file: finish and exit
  uint64_t counter_ = 0;
};

}  // namespace atl::spawner
