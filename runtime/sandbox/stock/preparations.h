// Has execd prepare the sandboxes of templates (wire/preparation.h), and receives the results.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/preparation.h"

namespace atl::sandbox {

class Preparations {
 public:
  // kFailedPrecondition: execd reports a failure; the message may quote output of the sandbox.
  // kUnavailable: execd did not get the request.
  using Done = std::function<void(Status)>;

  explicit Preparations(Loop& loop) : loop_(loop) {}
  Preparations(const Preparations&) = delete;
  Preparations& operator=(const Preparations&) = delete;
  ~Preparations();

  // Calls `done` once, later, unless GiveUp is called before.
  void Begin(const std::string& id, const std::string& execd_socket,
             const std::string& access_token, const wire::Preparation& wanted, Done done);
  // Succeeds for an unknown id.
  void GiveUp(const std::string& id);

 private:
  struct Asked {
    UniqueFd socket;
    Loop::Id watch = 0;
    Loop::Id deadline = 0;
    std::string answer;
    Done done;
  };
  Status Ask(Asked& asked, const std::string& id, const std::string& execd_socket,
             const std::string& access_token, const wire::Preparation& wanted);
  void OnReadable(const std::string& id);
  void End(const std::string& id, Status status);

  Loop& loop_;
  std::map<std::string, Asked> asked_;
};

}  // namespace atl::sandbox
