// Runs skopeo, which implements the protocols, logins and trust of registries. It runs as an unused
// user id, in a directory of its own, without a shell. It gets secrets in files that only it can
// read. It takes proxies from the environment (HTTPS_PROXY, NO_PROXY).
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/child.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

struct RegistryOptions {
  std::string image, name, authfile, certificates;
  bool insecure = false;
};
// Adds the options of `options` to the verb, except the names.
void AddWays(Verb& verb, RegistryOptions& options);

// The working directory of skopeo, and the user id that owns it.
class Workplace {
 public:
  static Result<Workplace> Make();

  // Creates a file that only skopeo can read.
  Result<UniqueFd> NewFile(const std::string& name) const;
  // Creates a directory of skopeo's. Its parent must be ours, or skopeo must not have run yet.
  Result<UniqueFd> NewDirectory(const std::string& name) const;
  Status Copy(const std::string& from, const std::string& name) const;
  Status GiveAway(int fd, const std::string& name) const;

  const std::string& path() const { return place_.path(); }
  uid_t user() const { return user_; }

 private:
  Workplace(TemporaryDirectory place, UniqueFd directory, uid_t user)
      : place_(std::move(place)), directory_(std::move(directory)), user_(user) {}

  TemporaryDirectory place_;
  UniqueFd directory_;
  uid_t user_;
};

class Skopeo {
 public:
  // Copies the files that the options name into the working directory.
  static Result<Skopeo> Prepare(const RegistryOptions& options);

  // Builds the command line of skopeo's `verb` with `words`. `side` is the prefix of the verb's
  // registry options: "src-", "dest-" or "".
  Child Command(const std::string& verb, const std::string& side, const Words& words) const;
  const Workplace& work() const { return work_; }

 private:
  explicit Skopeo(Workplace work) : work_(std::move(work)) {}

  Workplace work_;
  Words ways_;  // options without "--" and side
};

}  // namespace atl::cli
