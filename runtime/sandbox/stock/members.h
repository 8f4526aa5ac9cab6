// The life of one member of a template (templates.h): it is built, prepared by its execd, frozen,
// and given to a create or disposed of. A member is a normal sandbox that no client sees before it
// is claimed.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/stock/preparations.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

class Members {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    netpolicy::Network& network;
    Store& store;
    History& history;
    Expiry& expiry;
    Registry& registry;
    Room& room;
    Machine& machine;
    Attempts& attempts;
    const Check& check;
    Creates& creates;
    Pauses& pauses;
  };
  explicit Members(const Parts& parts) : parts_(parts), preparations_(parts.loop) {}
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  // Builds a member with this id. The member's state shows the result. An error: nothing is built.
  Status Build(const TemplateRecord& record, const std::string& id);
  // Has execd prepare the member. Calls `done` once, later, unless GiveUp is called or the member
  // is gone.
  void Prepare(const std::string& id, const wire::Preparation& wanted,
               std::function<void(Status)> done);
  void GiveUp(const std::string& id) { preparations_.GiveUp(id); }
  // Freezes the member. Does not call `done` if the member is gone.
  void Rest(const std::string& id, Settled done);
  // Succeeds for an unknown id.
  void Dispose(const std::string& id);
  // Gives the member to a create, whose attempt is answered when the member runs.
  void Give(const std::string& id, const tenants::Caller& caller, const Wanted& wanted,
            const std::shared_ptr<Attempt>& attempt);
  // Registers a function to call when a member has become its client's.
  void OnGiven(std::function<void(const Sandbox&)> given) { given_ = std::move(given); }

 private:
  const Parts parts_;
  std::function<void(const Sandbox&)> given_;
  Preparations preparations_;
  const Guard guard_;
};

// Makes the error of a create that gets no member.
CreateError RefusedClaim(Error why);

}  // namespace atl::sandbox
