// What a session has changed of a directory: the upper of its overlay, walked beside the directory
// of the sandbox's that lies below. It costs what has changed, not what there is.
//
// Both are strangers', and may be changing meanwhile: names are looked up one by one from
// descriptors, no link is followed, and no mount of the sandbox's beneath the directory is entered.
// The session sees neither.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "execd/files/tree_walk.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// One overlay of a session that keeps what is written.
struct KeptOverlay {
  std::string path;
  UniqueFd lower;  // the sandbox's directory, as it was found at `path`
  UniqueFd upper;  // can be read alone
};
// Outlives its session for whoever is at work on it. When `gone`, the upper is being deleted, and
// what is no longer in it says nothing.
struct KeptOverlays {
  std::vector<KeptOverlay> list;
  bool gone = false;
  bool committing = false;
};

struct SessionChange {
  enum class Kind : uint8_t { kAdded, kModified, kDeleted };
  Kind kind = Kind::kAdded;
  std::string path;    // beneath the overlay's
  std::string name;    // in both directories
  int upper = -1;      // borrowed until the next step
  int lower = -1;      // likewise; -1: it has no such directory yet
  struct stat now {};  // but for kDeleted
  struct stat was {};  // but for kAdded
};

class SessionChanges {
 public:
  // Of a longer path nobody could name the end.
  static constexpr size_t kMaxPath = 4095;

  // `overlay` must outlive it.
  static Result<SessionChanges> Begin(const KeptOverlay& overlay);

  enum class Step : uint8_t { kChange, kNothing, kEnd };
  // Looks at one name, as the identity that the thread has. Parents come before what is in them,
  // and what is gone from a directory before what is new in it. What is deleted with a directory is
  // not told of.
  Result<Step> Next(SessionChange* change);

 private:
  SessionChanges(int lower, UniqueFd upper) : root_(lower), walk_(std::move(upper), 0) {}
  Status FindLower(const std::string& directory);
  Result<bool> CompareDirectory(const TreeWalk::Entry& entry, const struct stat* was);
  Result<Step> NextHidden(SessionChange* change);

  int root_;
  TreeWalk walk_;
  TreeWalk::Entry entry_;
  UniqueFd lower_;          // of the walk's present directory, if there is one
  std::string lower_path_;  // its path, and a slash unless it is the root
  bool lower_known_ = false;
  int pure_depth_ = 0;  // from there on nothing of the lower is seen; 0: nowhere
  // A directory that hides the lower one of its name, and names there that may not be in it.
  UniqueFd hiding_, hidden_;
  std::string hidden_path_;
  std::vector<std::string> hidden_names_;
};

}  // namespace atl::execd
