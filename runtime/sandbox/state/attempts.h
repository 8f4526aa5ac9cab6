// The requests under way that make sandboxes, or make one anew (attempt.h): who repeats one by its
// Idempotency-Key gets the same answer, and none begins once the daemon shuts down.
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

namespace atl::sandbox {

class Attempts {
 public:
  // All outlive it.
  Attempts(const Clock& clock, Store& store, const Registry& registry)
      : clock_(clock), store_(store), registry_(registry) {}
  Attempts(const Attempts&) = delete;
  Attempts& operator=(const Attempts&) = delete;

  // Loads the keys of requests that were carried out.
  Status Load();
  // Null: it is refused, or repeats another request; `answered` is called, now or with the answer
  // to that. `take_back` takes back all that there is of the attempt's sandboxes if it fails.
  std::shared_ptr<Attempt> Begin(Attempt::Request request, Attempt::TakeBack take_back,
                                 const Attempt::Answered& answered);
  // One that no client asks for.
  std::shared_ptr<Attempt> BeginOwn(Attempt::TakeBack take_back);
  // Answers with the sandbox that has come of an attempt.
  Attempt::Answered AnswerTo(const Created& done) const;

  // Nothing begins any more.
  void Stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }
  // The parts that attempts have effects on are about to go: attempts that outlive this call have
  // none.
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
// True for what is no fault of the daemon's or the host's: what the request says, or want of room.
bool IsRefusal(const Error& error);
// Says in the log what has failed, in one line: "cannot create a sandbox".
void LogFailed(const Attempt& attempt, const CreateError& why, const char* what);

}  // namespace atl::sandbox
