// Stores of certificates that only programs of the image can write: Java's, by its keytool, and the
// user's NSS database, which Chromium reads, by certutil. Where the image has them they run before
// anything else does; what they fail at is told of, and nothing more.
//
// Thread rule: the loop's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/core.h"
#include "execd/run/checked_run.h"
#include "runtime/base/result.h"

namespace atl::execd {

class TrustStores {
 public:
  using Complain = std::function<void(std::string_view)>;
  // `core` outlives it.
  TrustStores(Core* core, Complain complain)
      : core_(*core), complain_(std::move(complain)), run_(core) {}
  TrustStores(const TrustStores&) = delete;
  TrustStores& operator=(const TrustStores&) = delete;

  // Imports kAuthorityFile, in place of a parent's that is there. `done` is called once, perhaps
  // before this returns.
  void Fill(std::function<void()> done);

 private:
  void FillJava();
  void FillNss();
  void AddToNss();
  // Runs a program of the image to its end; `then`, from the loop unless it cannot be started.
  void Run(std::vector<std::string> argv, const Identity& identity, const CheckedRun::Done& then);
  Status Start(std::vector<std::string> argv, const Identity& identity, CheckedRun::Done then);
  void Settle(std::string_view what, const Status& status);

  Core& core_;
  const Complain complain_;
  std::function<void()> done_;
  std::string program_;
  std::vector<std::string> store_;  // the arguments that name it
  CheckedRun run_;
};

}  // namespace atl::execd
