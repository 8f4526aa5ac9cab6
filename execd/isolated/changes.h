// Finds what a session has changed in a directory: walks the upper directory of the session's
// overlay, and compares it with the lower directory, which belongs to the sandbox. The cost depends
// on the number of changes, not on the size of the lower directory.
//
// Both directories have hostile contents and may change during the walk. So names are looked up one
// by one from descriptors, no link is followed, and mounts of the sandbox below the directory are
// not entered. The session does not see such mounts either.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "execd/files/tree_walk.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// One overlay of a session whose changes are kept.
struct KeptOverlay {
  std::string path;
  UniqueFd lower;  // the sandbox's directory, as opened at `path`
  UniqueFd upper;  // readable without the overlay mount
};
// The kept overlays of a session. Shared with requests in progress, so it may outlive the session.
// `gone` means that the upper directories are being deleted: a name that is missing there no longer
// means anything.
struct KeptOverlays {
  std::vector<KeptOverlay> list;
  bool gone = false;
  bool committing = false;
};

struct SessionChange {
  enum class Kind : uint8_t { kAdded, kModified, kDeleted };
  Kind kind = Kind::kAdded;
  std::string path;    // path below the overlay's directory
  std::string name;    // name in `upper` and `lower`
  int upper = -1;      // borrowed until the next step
  int lower = -1;      // borrowed likewise; -1: the directory does not exist there
  struct stat now {};  // not set for kDeleted
  struct stat was {};  // not set for kAdded
};

class SessionChanges {
 public:
  // Limit on the length of a path, because no system call accepts a longer one.
  static constexpr size_t kMaxPath = 4095;

  // `overlay` is borrowed and must outlive the object.
  static Result<SessionChanges> Begin(const KeptOverlay& overlay);

  enum class Step : uint8_t { kChange, kNothing, kEnd };
  // Examines one name with the identity of the calling thread. Parents come before their contents,
  // and deletions in a directory before additions. Reports a deleted directory without its
  // contents.
  Result<Step> Next(SessionChange* change);

 private:
  SessionChanges(int lower, UniqueFd upper) : root_(lower), walk_(std::move(upper), 0) {}
  Status FindLower(const std::string& directory);
  Result<bool> CompareDirectory(const TreeWalk::Entry& entry, const struct stat* was);
  Result<Step> NextHidden(SessionChange* change);

  int root_;
  TreeWalk walk_;
  TreeWalk::Entry entry_;
  UniqueFd lower_;          // the lower directory of the walk's current one, if it exists
  std::string lower_path_;  // its path, with a slash at the end unless it is the root
  bool lower_known_ = false;
  int pure_depth_ = 0;  // the lower directory is invisible from this depth on; 0: nowhere
  // An opaque upper directory, the lower directory that it hides, and the hidden names that remain
  // to be compared.
  UniqueFd hiding_, hidden_;
  std::string hidden_path_;
  std::vector<std::string> hidden_names_;
};

}  // namespace atl::execd
