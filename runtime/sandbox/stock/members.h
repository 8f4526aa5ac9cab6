// The life of one member of a template (templates.h): it is built, prepared by its execd, brought
// to rest, and given to a create or disposed of. A member is a sandbox like any other, which no
// client sees before it is claimed.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/stock/preparations.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/store/template_store.h"

namespace atl::sandbox {

class Members {
 public:
  // All parts outlive it.
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

  // Builds one under this id: its state tells what comes of it. An error: nothing does.
  Status Build(const TemplateRecord& record, const std::string& id);
  // Has its execd make it ready. `done` is called once, later, unless it is given up, or gone.
  void Prepare(const std::string& id, const wire::Preparation& wanted,
               std::function<void(Status)> done);
  void GiveUp(const std::string& id) { preparations_.GiveUp(id); }
  // Lets it stand still. `done` is not called for one that is gone.
  void Rest(const std::string& id, Settled done);
  // An unknown one is no error.
  void Dispose(const std::string& id);
  // It is that create's from now on, which is answered when it runs.
  void Give(const std::string& id, const Caller& caller, const Wanted& wanted,
            const std::shared_ptr<Attempt>& attempt);

 private:
  const Parts parts_;
  Preparations preparations_;
  const Guard guard_;
};

// Why a create cannot have a member.
CreateError RefusedClaim(Error why);

}  // namespace atl::sandbox
