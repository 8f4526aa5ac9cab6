// Callers that wait for the end of a sandbox's pause, resume or rollback, successful or not.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// An error says why the sandbox is not in the requested state.
using Settled = std::function<void(Status)>;

class Waiters {
 public:
  void Add(const Sandbox& sandbox, Settled done) { all_[&sandbox].push_back(std::move(done)); }
  // Undoes the last Add.
  void TakeBack(const Sandbox& sandbox) {
    const auto found = all_.find(&sandbox);
    found->second.pop_back();
    if (found->second.empty()) all_.erase(found);
  }
  // Calls and forgets all callers that wait for the sandbox. The sandbox may be gone afterwards.
  void Settle(const Sandbox& sandbox, const Status& status) {
    const auto node = all_.extract(&sandbox);
    if (node.empty()) return;
    for (const Settled& done : node.mapped()) done(status);
  }

 private:
  std::unordered_map<const Sandbox*, std::vector<Settled>> all_;
};

}  // namespace atl::sandbox
