// One rollback on its way, until its sandbox is recorded as being what was built: a second sandbox
// with the first one's spec and the files of a snapshot, in which nothing has been started.
#pragma once

#include <memory>
#include <string>

#include "netpolicy/policy/policy.h"
#include "runtime/sandbox/create/attempt.h"
#include "runtime/sandbox/create/launch.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

struct WantedRollback {
  std::string snapshot_id;
  std::string idempotency_key;  // of the request; empty: none
  std::string fingerprint;      // of what it asks for; with a key
  std::string request_id;       // for the log
};

struct Rollback {
  std::string snapshot_id;
  Sandbox next;  // the sandbox as it is to be; only its host id, layers and slot are taken over
  netpolicy::SharedPolicy claimed;  // by next's slot
  std::shared_ptr<const void> use;  // of the sandbox, which does not fall idle meanwhile
  std::shared_ptr<Launch> launch;
  std::shared_ptr<Attempt> attempt;
};

}  // namespace atl::sandbox
