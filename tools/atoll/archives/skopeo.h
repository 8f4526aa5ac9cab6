// skopeo, which knows registries, their ways of asking who one is, and whom to trust. It runs as
// nobody, in a directory of its own, and without a shell; what is secret reaches it in files that
// are its own. Proxies it takes from the environment (HTTPS_PROXY, NO_PROXY), as everybody does.
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
// Takes all but the names.
void AddWays(Verb& verb, RegistryOptions& options);

// The directory that skopeo works in, and whose it is.
class Workplace {
 public:
  static Result<Workplace> Make();

  // A new file of skopeo's, for its eyes alone.
  Result<UniqueFd> NewFile(const std::string& name) const;
  // A new directory of skopeo's; the one that `name` is in is ours, or skopeo has not run yet.
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
  // Takes along what the options name.
  static Result<Skopeo> Prepare(const RegistryOptions& options);

  // skopeo's `verb` with `words`. `side`: what the verb has in front of the options of a registry,
  // "src-", "dest-" or nothing.
  Child Command(const std::string& verb, const std::string& side, const Words& words) const;
  const Workplace& work() const { return work_; }

 private:
  explicit Skopeo(Workplace work) : work_(std::move(work)) {}

  Workplace work_;
  Words ways_;  // without "--" and side
};

}  // namespace atl::cli
