// Programs that verbs start. No shell is between: each word arrives as it is.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// In TMPDIR (or `place`), for its owner alone; removed with all that is in it.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> Make(const std::string& place = "/var/tmp");
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct Child {
  Words argv;         // the program is looked for in PATH
  Words env;          // NAME=VALUE, beside or instead of our own
  std::string apt;    // the Debian package that brings it, for the error if it is missing
  std::string cwd;    // empty: ours
  uid_t user = 0;     // run as this one, of no group, and nothing gives more; 0: as we are
  bool told = false;  // what it prints to stdout goes to our stderr, too
  std::function<void()> meanwhile;  // if set: called several times a second until it ends
};

// Ids that are nobody's: of no account, sandbox or service. One for each process of ours.
uid_t NobodysId();

// Waits for its end; what it has printed to stdout, 4 MiB at most. Its stderr is ours. What comes
// at `cancel_fd` (CatchInterrupts) ends it. kFailedPrecondition: it failed, or is not there.
Result<std::string> RunChild(const Child& child, int cancel_fd);

}  // namespace atl::cli
