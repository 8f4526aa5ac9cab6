// One fork on its way: sandboxes with the files and the spec of another, which come about together
// or not at all. They are those of its attempt (attempt.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/create/attempt.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Of one request: they are all held before the first is built.
inline constexpr size_t kMaxChildren = 64;

struct WantedFork {
  size_t count = 1;             // at most kMaxChildren
  std::string idempotency_key;  // of the request; empty: none
  std::string fingerprint;      // of what it asks for; with a key
  std::string request_id;       // for the log
};
// All children, which run, or why there is none.
using Forked = std::function<void(const tl::expected<std::vector<Sandbox>, CreateError>&)>;

struct Fork {
  std::string parent;
  std::shared_ptr<Attempt> attempt;
  std::set<std::string> built;      // children whose records wait for the others'
  std::shared_ptr<const void> use;  // of its parent, which does not fall idle meanwhile
};

}  // namespace atl::sandbox
