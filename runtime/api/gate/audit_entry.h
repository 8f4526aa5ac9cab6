// The line of the audit log about one request. It is written when the answer is handed over, before
// a byte of the answer leaves.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/auditor.h"
#include "runtime/http/message.h"
#include "runtime/tenants/audit/event.h"
#include "runtime/tenants/caller.h"

namespace atl::api {

class AuditEntry {
 public:
  // The caller has been authorised. Nothing is written once the auditor is gone.
  AuditEntry(const std::shared_ptr<Auditor>& auditor, const http::Request& request,
             std::string request_id, std::string_view action, const tenants::Caller& caller);
  AuditEntry(const AuditEntry&) = delete;
  AuditEntry& operator=(const AuditEntry&) = delete;
  // Writes the line if there was no answer: the client went away, or the sandbox broke off.
  ~AuditEntry();

  // Sets the target; its kind is the action's first word unless `id` is a sandbox's.
  void SetTarget(std::string_view kind, const std::string& id);
  void AddFact(std::string_view name, std::string value);
  void AddFact(std::string_view name, int64_t value);
  // The line is written only if the target belongs to another tenant than the caller.
  void OnlyForOthers() { only_for_others_ = true; }
  audit::Level level() const { return level_; }

  // Returns true if the line tells something of the request's body.
  bool TakesBody() const;
  // Takes a piece of the request's body. Keeps the first kMaxAuditedBody bytes of all pieces.
  void TakeBody(std::string_view piece);

  // Writes the line, the first time. `made`: the id of the object that the request made; else
  // empty.
  void Answered(int status, std::string_view code = {}, std::string_view made = {});

 private:
  const std::weak_ptr<Auditor> auditor_;
  const audit::Level level_;
  const int64_t began_us_;
  const std::string caller_tenant_;
  audit::Event event_;
  std::string body_;
  bool body_cut_ = false;
  bool only_for_others_ = false;
  bool written_ = false;
};

// The refusal of such a request: 503.
ApiError AuditUnavailable();

// Returns true if a request with that action must be refused while the log cannot be written.
// Reading goes on, and so does what frees room or stops a sandbox: deletes and pauses.
bool NeedsAudit(std::string_view method, std::string_view action);

}  // namespace atl::api
