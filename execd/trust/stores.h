// Stores of certificates that only programs of the image can write: Java's, by its keytool, and the
// user's NSS database, which Chromium reads, by certutil. Where the image has them they run before
// anything else does; what they fail at is told of, and nothing more.
//
// Thread rule: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "runtime/base/result.h"

namespace atl::execd {

class TrustStores {
 public:
  using Complain = std::function<void(std::string_view)>;
  // `core` outlives it.
  TrustStores(Core* core, Complain complain) : core_(*core), complain_(std::move(complain)) {}
  TrustStores(const TrustStores&) = delete;
  TrustStores& operator=(const TrustStores&) = delete;

  // Imports kAuthorityFile, in place of a parent's that is there. `done` is called once, perhaps
  // before this returns.
  void Fill(std::function<void()> done);

 private:
  using Then = std::function<void(const Status&)>;

  void FillJava();
  void FillNss();
  void AddToNss();
  // Runs a program of the image to its end; `then`, from the loop unless it cannot be started.
  void Run(std::vector<std::string> argv, const Identity& identity, Then then);
  Status Start(std::vector<std::string> argv, const Identity& identity, Then then);
  void RunEnded(const JobExit& exit, Then then);
  void Settle(std::string_view what, const Status& status);

  Core& core_;
  const Complain complain_;
  std::function<void()> done_;
  std::string program_;
  std::vector<std::string> store_;  // the arguments that name it
  std::unique_ptr<Job> job_;
  std::unique_ptr<OutputPipe> pipe_;
  std::string output_;  // its end
};

}  // namespace atl::execd
