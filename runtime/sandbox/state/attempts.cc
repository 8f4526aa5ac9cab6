#include "runtime/sandbox/state/attempts.h"

#include "runtime/base/disk_full.h"
#include "runtime/base/log.h"

namespace atl::sandbox {

Error ShuttingDown() {
  return Error(Code::kUnavailable, "atolld is shutting down");
}

bool IsRefusal(const Error& error) {
  switch (error.code()) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kInternal:
      return false;
    case Code::kResourceExhausted:
      return !IsDiskFull(error);
    default:
      return true;
  }
}

void LogFailed(const Attempt& attempt, const CreateError& why, const char* what) {
  const Attempt::Request& request = attempt.request();
  // The daemon logs the loss of the spawner once and tells each client. So kUnavailable is logged
  // at debug level: a client that retries at once must not fill the log.
  LogLine line(
      IsRefusal(why) || why.code() == Code::kUnavailable ? LogLevel::kDebug : LogLevel::kWarning,
      what);
  const std::string& id =
      request.of.empty() && !attempt.sandboxes().empty() ? attempt.sandboxes().front() : request.of;
  line.Add("sandbox", id).Add("request", request.request_id).Add(why);
}

Status Attempts::Load() {
  ATOLL_ASSIGN(std::vector<KeyRecord> keys, store_.LoadKeys());
  keys_.Load(std::move(keys));
  return {};
}

std::shared_ptr<Attempt> Attempts::Begin(const tenants::Caller& caller, Attempt::Request request,
                                         Attempt::TakeBack take_back,
                                         const Attempt::Answered& answered) {
  request.tenant = caller.tenant;
  const auto refuse = [&](Error why) {
    answered(tl::unexpected(CreateError(std::move(why))));
    return nullptr;
  };
  if (stopping_) return refuse(ShuttingDown());
  const auto refuse_other = [&] {
    return refuse(Error(Code::kAlreadyExists,
                        "Idempotency-Key '" + request.key +
                            "' was used with another request before; choose a new one"));
  };
  if (Attempt* const first = keys_.UnderWay(request.tenant, request.key)) {
    if (first->request().fingerprint != request.fingerprint) return refuse_other();
    first->Join(answered);
    return nullptr;
  }
  if (const KeyRecord* const first = keys_.Find(request.tenant, request.key)) {
    if (first->fingerprint != request.fingerprint) return refuse_other();
    std::vector<std::string> there;
    for (const std::string& id : first->sandboxes) {
      const Sandbox* const sandbox = registry_.Look(id);
      if (sandbox != nullptr && !IsLeaving(sandbox->state)) there.push_back(id);
    }
    if (there.empty()) {
      return refuse(Error(Code::kAlreadyExists, "what the first request with Idempotency-Key '" +
                                                    request.key +
                                                    "' made has been deleted or has expired; "
                                                    "choose a new key"));
    }
    answered(std::move(there));
    return nullptr;
  }
  request.made_ms = clock_.UnixMillis();
  auto attempt = std::make_shared<Attempt>(
      Attempt::Parts{std::move(take_back), keys_, store_, guard_->watch()}, std::move(request));
  attempt->Join(answered);
  return attempt;
}

std::shared_ptr<Attempt> Attempts::BeginOwn(Attempt::TakeBack take_back) {
  return std::make_shared<Attempt>(
      Attempt::Parts{std::move(take_back), keys_, store_, guard_->watch()},
      Attempt::Request{.kind = Attempt::Kind::kStock});
}

Attempt::Answered Attempts::AnswerTo(const Created& done) const {
  return [this, done](const Attempt::Outcome& outcome) {
    if (!outcome) return done(tl::unexpected(outcome.error()));
    const Sandbox* const sandbox = registry_.Look(outcome->front());
    if (sandbox != nullptr) return done(*sandbox);
    done(tl::unexpected(CreateError(
        Error(Code::kFailedPrecondition, "sandbox " + outcome->front() + " has been deleted"))));
  };
}

}  // namespace atl::sandbox
