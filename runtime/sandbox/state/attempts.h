// The requests in flight that make or replace sandboxes (attempt.h). A client that repeats a
// request by its Idempotency-Key gets the same answer. No attempt begins once the daemon shuts
// down.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/idempotency.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

class Attempts {
 public:
  // All arguments outlive this object.
  Attempts(const Clock& clock, Store& store, const Registry& registry)
      : clock_(clock), store_(store), registry_(registry) {}
  Attempts(const Attempts&) = delete;
  Attempts& operator=(const Attempts&) = delete;

  // Loads the keys of completed requests.
  Status Load();
  // Begins an attempt of the caller, whose failure calls `take_back`. Returns null if the request
  // is refused or repeats another one; then `answered` gets the refusal now, or the other request's
  // answer now or later.
  std::shared_ptr<Attempt> Begin(const tenants::Caller& caller, Attempt::Request request,
                                 Attempt::TakeBack take_back, const Attempt::Answered& answered);
  // Begins an attempt of the daemon's own, which no client asked for.
  std::shared_ptr<Attempt> BeginOwn(Attempt::TakeBack take_back);
  // Adapts `done`: passes it the sandbox that the attempt made.
  Attempt::Answered AnswerTo(const Created& done) const;

  // Refuses all further attempts.
  void Stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }
  // Call before the parts that attempts affect are destroyed: attempts that outlive this call have
  // no effect.
  void End() { guard_.reset(); }

 private:
  const Clock& clock_;
  Store& store_;
  const Registry& registry_;
  Idempotency keys_;
  bool stopping_ = false;
  std::optional<Guard> guard_{std::in_place};
};

Error ShuttingDown();
// Returns true for an error that is no fault of the daemon or the host: the request is wrong, or
// there is no room.
bool IsRefusal(const Error& error);
// Logs one line about a failed attempt. `what` describes the operation: "cannot create a sandbox".
void LogFailed(const Attempt& attempt, const CreateError& why, const char* what);

}  // namespace atl::sandbox
