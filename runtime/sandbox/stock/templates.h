// Templates: sandboxes that are started ahead. A pool's member runs no program until it is claimed.
// A template's member has started its entrypoint, passed its readiness probe and finished its
// warm-up; then it is frozen until a create claims it. So the template specifies everything that a
// program starts with, and a claim adds only labels, deadline and network policy.
//
// A member is a normal sandbox with a record, invisible to clients before its claim. One create
// gets it, with the id and the tokens that it was built with and that no client has seen. A ready
// member survives a restart of the daemon; other members are built again.
//
// A create that finds no member waits for the next one, which is built at once. Otherwise members
// are built when no create is at work, one at a time per template. Members give up their share of
// the host as soon as a create needs it. A failed template is retried with increasing delays.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/stock/members.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

struct TemplateStats {
  uint64_t built = 0;
  uint64_t failed = 0;
  uint64_t claimed = 0;  // creates that found a member
  uint64_t waited = 0;   // creates that found none and got one later
  uint64_t disposed = 0;
};

class Templates {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    Admission& admission;
    TemplateStore& store;
    Registry& registry;
    const Room& room;
    const Check& check;
    Members& members;
  };
  enum class Phase : uint8_t { kPending, kBuilding, kSucceeded, kFailed };
  struct View {
    const TemplateRecord* record = nullptr;
    Phase phase = Phase::kPending;
    uint32_t ready = 0;
    uint32_t building = 0;
    uint32_t waiting = 0;  // creates that wait for a member
    std::string trouble;   // why the stock is incomplete; empty: nothing prevents it
  };
  static constexpr size_t kMaxTemplates = 128;

  // `most_members`: limit for all templates and pools together.
  Templates(const Parts& parts, uint32_t most_members)
      : parts_(parts), most_members_(most_members) {}
  Templates(const Templates&) = delete;
  Templates& operator=(const Templates&) = delete;
  ~Templates() { parts_.loop.Cancel(timer_); }

  Status Load();
  // Call at start: keeps members that an earlier daemon had made ready, and disposes of the others.
  void AdoptMembers();

  // Creates a template of the caller and returns its new id. kResourceExhausted: kMaxTemplates
  // exist. Other errors: see Check::Member.
  Result<std::string> Create(const tenants::Caller& caller, TemplateRecord record);
  // Removes the template. Sandboxes that were claimed from it live on. kNotFound.
  Status Remove(const tenants::Caller& caller, const std::string& id);
  std::optional<View> Find(const tenants::Caller& caller, const std::string& id) const;
  // Returns the templates that the caller sees.
  std::vector<const TemplateRecord*> Records(const tenants::Caller& caller) const;
  // Returns the owner of the template; empty: the host, or there is no such template.
  std::string TenantOf(const std::string& id) const;
  // Adds the members that all templates may keep.
  void CountKept(const std::string& tenant, Kept* kept) const;
  // Resources reserved for ready members and for those being prepared.
  Held stock() const;
  // Returns a template that may use the image of that owner; null if there is none.
  const TemplateRecord* UserOf(const std::string& owner, const std::string& image) const;

  // Returns the template that a create names. kNotFound: the caller sees none of that id, or no
  // member of it has been ready.
  Result<const TemplateRecord*> Usable(const tenants::Caller& caller, const std::string& id) const;
  // `wanted` names a template that is Usable. Answers the create now, or once there is a member for
  // it or can be none.
  void Claim(const tenants::Caller& caller, const Wanted& wanted, std::shared_ptr<Attempt> attempt);

  // Call when a create is coming: pauses building for a while, and disposes of members if the
  // create needs their room.
  void GiveWay();
  // Call periodically: replaces outdated members.
  void Look();
  // A watcher of the machine: a member runs, or has ended.
  void OnTransition(const Sandbox& sandbox, State before);
  // Stops building and answers waiting creates with an error.
  void Stop();

  const TemplateStats& stats() const { return stats_; }

 private:
  struct Waiter {
    tenants::Caller caller;
    Wanted wanted;
    std::shared_ptr<Attempt> attempt;
    int64_t until_us = 0;
  };
  struct Ready {
    std::string id;
    int64_t since_us = 0;
  };
  struct Template {
    TemplateRecord record;
    std::deque<Ready> ready;       // oldest first
    std::set<std::string> coming;  // members that are being built, prepared or frozen
    std::deque<Waiter> waiters;
    int failures = 0;  // consecutive failures
    int64_t retry_us = 0;
    std::string trouble;
  };

  void Runs(const std::string& id);
  void Lost(const std::string& id, const std::string& why);
  // Like Lost, but deferred, because the caller is still inside the code that ended the member.
  void LoseLater(const std::string& id, std::string why);
  Result<Sandbox> MemberOf(const TemplateRecord& record) const;
  bool Adopt(const Sandbox& member);
  Template* OwnerOf(const std::string& member);
  size_t waiting() const;
  // Returns the sum of `count` over the templates of the tenant.
  template <typename Count>
  size_t SumOf(const std::string& tenant, Count count) const;
  // Returns whether the tenant of the template may have another of `most` members in preparation,
  // of which there are `coming`.
  bool MayBuild(const Template& of, size_t coming, size_t most) const;
  void Prepared(const std::string& id, const Status& prepared);
  void Rested(const std::string& id, const Status& rested);
  // Gives a member that has become ready to the create that has waited longest. Returns false if no
  // create waits.
  bool GiveToWaiter(Template& of, const std::string& id);
  void Failed(Template& of, const std::string& why);
  void Succeeded(Template& of);
  // Writes the record. If that fails, the next change writes it.
  void Write(Template& of);
  void MakeRoom();
  void Pump();
  void PumpLater(int64_t delay_us);
  void Build(Template& of);
  void Dispose(Template& of, const std::string& id);
  void DisposeAll(Template& of);
  static void Refuse(const Waiter& waiter, const Error& why);

  const Parts parts_;
  const uint32_t most_members_;
  std::map<std::string, Template> templates_;
  int64_t quiet_from_us_ = 0;
  Loop::Id timer_ = 0;
  bool stopped_ = false;
  TemplateStats stats_;
  const Guard guard_;
};

std::string_view PhaseName(Templates::Phase phase);

}  // namespace atl::sandbox
