// Attempts among sandboxes: who repeats a request, and what one that fails leaves: nothing.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/disk_full.h"
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// The client's request, or the host's want of room: not a fault.
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

}  // namespace

std::shared_ptr<Attempt> Lifecycle::NewAttempt(Attempt::Request request,
                                               const Attempt::Answered& answered) {
  const auto refuse = [&](Error why) {
    answered(tl::unexpected(CreateError(std::move(why))));
    return nullptr;
  };
  if (stopping_) return refuse(Error(Code::kUnavailable, "atolld is shutting down"));
  const auto refuse_other = [&] {
    return refuse(Error(Code::kAlreadyExists,
                        "Idempotency-Key '" + request.key +
                            "' was used with another request before; choose a new one"));
  };
  if (Attempt* const first = idempotency_.UnderWay(request.key)) {
    if (first->request().fingerprint != request.fingerprint) return refuse_other();
    first->Join(answered);
    return nullptr;
  }
  if (const KeyRecord* const first = idempotency_.Find(request.key)) {
    if (first->fingerprint != request.fingerprint) return refuse_other();
    std::vector<std::string> there;
    for (const std::string& id : first->sandboxes) {
      const Entry* const entry = Look(id);
      if (entry != nullptr && !IsLeaving(entry->sandbox.state)) there.push_back(id);
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
  const auto attempt = std::make_shared<Attempt>(AttemptParts(), std::move(request));
  attempt->Join(answered);
  return attempt;
}

Attempt::Answered Lifecycle::AnswerOf(const Created& done) {
  return [this, done](const Attempt::Outcome& outcome) {
    if (!outcome) return done(tl::unexpected(outcome.error()));
    const Entry* const entry = Look(outcome->front());
    if (entry != nullptr) return done(entry->sandbox);
    done(tl::unexpected(CreateError(
        Error(Code::kFailedPrecondition, "sandbox " + outcome->front() + " has been deleted"))));
  };
}

void Lifecycle::TakeBack(const Attempt& attempt, const CreateError& why) {
  using Kind = Attempt::Kind;
  const Attempt::Request& request = attempt.request();
  const bool rollback = request.kind == Kind::kRollback;
  const bool refused = IsRefusal(why);
  const size_t sandboxes = std::max<size_t>(1, attempt.sandboxes().size());
  if (rollback) {
    ++(refused ? stats_.rollback_refused : stats_.rollback_failed);
  } else if (request.kind != Kind::kStock) {
    CreateStats& stats = stats_.creates[static_cast<size_t>(request.origin)];
    (refused ? stats.refused : stats.error) += sandboxes;
    if (refused && why.code() == Code::kResourceExhausted) {
      const bool queue = why.error_number() == EAGAIN;
      (queue ? stats_.refused_by_queue : stats_.refused_by_host) += sandboxes;
    }
  }
  // The loss of the spawner is logged once, and each client is told. A client that tries again at
  // once must not fill the log.
  LogLine line(refused || why.code() == Code::kUnavailable ? LogLevel::kDebug : LogLevel::kWarning,
               rollback                      ? "cannot roll a sandbox back"
               : request.kind == Kind::kFork ? "cannot fork a sandbox"
                                             : "cannot create a sandbox");
  const std::string& id =
      request.of.empty() && !attempt.sandboxes().empty() ? attempt.sandboxes().front() : request.of;
  line.Add("sandbox", id).Add("request", request.request_id).Add(why);
  if (rollback) return DropRollback(attempt);
  const Cause cause{"PROVISIONING_ERROR", WithoutPaths(why.message(), config_.private_directories)};
  for (const std::string& each : attempt.sandboxes()) {
    if (Entry* const entry = Look(each)) Abandon(*entry, cause);
  }
}

void Lifecycle::Abandon(Entry& entry, const Cause& cause) {
  const State state = entry.sandbox.state;
  const bool begun = state == State::kBuilding || state == State::kCancelled;
  // A build whose answer is still to come ends behind that.
  const bool answered = begun && entry.launch != nullptr && !entry.launch->in_flight();
  ApplyAnyway(entry, answered ? Event::kNotBuilt : Event::kDelete, cause);
}

void Lifecycle::Acknowledge(Entry& entry) {
  const SharedAttempt attempt = std::exchange(entry.attempt, nullptr);
  if (attempt == nullptr) return;
  attempt->Commit();
  attempt->Answer();
}

}  // namespace atl::sandbox
