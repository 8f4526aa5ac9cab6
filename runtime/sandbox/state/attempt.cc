#include "runtime/sandbox/state/attempt.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

Attempt::Attempt(Parts parts, Request request)
    : parts_(std::move(parts)), request_(std::move(request)) {
  if (!request_.key.empty())
    parts_.keys.Begin(request_.tenant, request_.key, this, request_.made_ms);
}

Attempt::~Attempt() {
  Fail(CreateError(Error(Code::kUnavailable, "the request was given up; try again")));
}

std::optional<KeyRecord> Attempt::key() const {
  if (request_.key.empty()) return std::nullopt;
  return KeyRecord{request_.tenant, request_.key, request_.fingerprint, sandboxes_,
                   request_.made_ms};
}

void Attempt::Commit() {
  committed_ = true;
  if (auto record = key()) parts_.keys.Add(*std::move(record));
}

void Attempt::Answer() {
  over_ = true;
  Tell(sandboxes_);
}

void Attempt::Fail(const CreateError& why) {
  if (std::exchange(over_, true) || parts_.alive.expired()) return;
  if (!committed_) {
    // Takes back the sandboxes before the key. If the daemon dies in between, a repeated request is
    // told that they are deleted, and no sandbox is left unknown.
    parts_.take_back(*this, why);
    const Status removed =
        key_stored_ ? parts_.store.RemoveKey(request_.tenant, request_.key) : Status();
    if (!removed) {
      LogLine(LogLevel::kWarning, "cannot remove the Idempotency-Key of a request that failed")
          .Add("request", request_.request_id)
          .Add(removed.error());
    }
  }
  Tell(tl::unexpected(why));
}

void Attempt::Tell(const Outcome& outcome) {
  // Releases the key before the answers, because a client may repeat the request at once.
  if (!request_.key.empty()) parts_.keys.End(request_.tenant, request_.key);
  for (const Answered& answered : std::exchange(waiters_, {})) answered(outcome);
}

}  // namespace atl::sandbox
