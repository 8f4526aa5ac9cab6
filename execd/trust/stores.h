// Certificate stores that only programs of the image can write: Java's, by keytool, and the user's
// NSS database, which Chromium reads, by certutil. If the image has these programs, they run before
// all others. A failure is reported and otherwise ignored.
//
// Thread rule: the event loop's thread.
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
  // `core` is borrowed and must outlive the object.
  TrustStores(Core* core, Complain complain)
      : core_(*core), complain_(std::move(complain)), run_(core) {}
  TrustStores(const TrustStores&) = delete;
  TrustStores& operator=(const TrustStores&) = delete;

  // Imports kAuthorityFile and replaces a parent sandbox's certificate. Calls `done` once, perhaps
  // before this returns.
  void Fill(std::function<void()> done);

 private:
  void FillJava();
  void FillNss();
  void AddToNss();
  // Runs a program of the image to its end. Calls `then` from the loop, or at once if the program
  // cannot be started.
  void Run(std::vector<std::string> argv, const Identity& identity, const CheckedRun::Done& then);
  Status Start(std::vector<std::string> argv, const Identity& identity, CheckedRun::Done then);
  void Settle(std::string_view what, const Status& status);

  Core& core_;
  const Complain complain_;
  std::function<void()> done_;
  std::string program_;
  std::vector<std::string> store_;  // arguments that name the store
  CheckedRun run_;
};

}  // namespace atl::execd
