// Runs child programs of verbs, without a shell: each word arrives unchanged.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// A directory in TMPDIR (or `place`) that only its owner can enter. The destructor removes it and
// its content.
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
  Words argv;                       // the program is searched in PATH
  Words env;                        // NAME=VALUE, added to our own or replacing it
  std::string apt;                  // Debian package of the program, for the error if it is missing
  std::string cwd;                  // empty: ours
  uid_t user = 0;                   // user id without groups or new privileges; 0: ours
  bool told = false;                // copy its stdout to our stderr
  std::function<void()> meanwhile;  // if set: called several times a second while it runs
};

// Returns a user id that belongs to no account, sandbox or service, and to no other process of
// atoll.
uid_t NobodysId();

// Runs the child to its end and returns its stdout, at most 4 MiB. It inherits our stderr. A signal
// at `cancel_fd` (CatchInterrupts) ends it. kFailedPrecondition: it failed, or is not installed.
Result<std::string> RunChild(const Child& child, int cancel_fd);

}  // namespace atl::cli
