// One fork on its way: sandboxes with the files and the spec of another, which come about together
// or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/idempotency.h"
#include "runtime/sandbox/launch.h"
#include "runtime/sandbox/sandbox.h"

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
  std::optional<KeyRecord> key;  // names the first child
  std::vector<std::string> children;
  std::set<std::string> built;  // of them; their records wait for the others'
  std::vector<Sandbox> made;
  std::shared_ptr<const void> use;  // of its parent, which does not fall idle meanwhile
  bool over = false;                // nothing is waited for any more
  std::vector<Forked> waiters;
};

}  // namespace atl::sandbox
