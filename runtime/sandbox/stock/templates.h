// Templates: sandboxes that are started ahead. A pool's members wait at the gate, with nothing in
// them; a template's run: entrypoint started, readiness probe passed, warm-up done, and then they
// stand still until a create claims them. So a template says all that a program is started with,
// and a claim brings only what it cannot know: labels, deadline, network policy.
//
// A member is a sandbox like any other, with a record, that no client can see before its claim. It
// is handed out once, with the id and the tokens that it was built with and nobody was told. It
// survives the daemon if it was ready; others are built anew.
//
// A create that finds none waits for the next, which is built at once. Else members are built when
// no create is at work, one of a template at a time; what they are promised of the host they give
// up as soon as a create needs it. A template that fails is tried again later and later.
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
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/stock/members.h"
#include "runtime/sandbox/store/template_store.h"

namespace atl::sandbox {

struct TemplateStats {
  uint64_t built = 0;
  uint64_t failed = 0;
  uint64_t claimed = 0;  // creates that found a member
  uint64_t waited = 0;   // that did not, and got one
  uint64_t disposed = 0;
};

class Templates {
 public:
  // All parts outlive it.
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
    uint32_t waiting = 0;  // creates
    std::string trouble;   // why it has not its stock; empty: nothing keeps it
  };
  static constexpr size_t kMaxTemplates = 128;

  // `most_members`: of all templates, and pools, together.
  Templates(const Parts& parts, uint32_t most_members)
      : parts_(parts), most_members_(most_members) {}
  Templates(const Templates&) = delete;
  Templates& operator=(const Templates&) = delete;
  ~Templates() { parts_.loop.Cancel(timer_); }

  Status Load();
  // At start: members that an earlier daemon had made ready go on waiting, others go.
  void AdoptMembers();

  // Gives it its id. kResourceExhausted: there are as many as may be; else as Check::Member.
  Result<std::string> Create(TemplateRecord record);
  // Sandboxes that were made of it live on. kNotFound.
  Status Remove(const std::string& id);
  std::optional<View> Find(const std::string& id) const;
  std::vector<const TemplateRecord*> Records() const;
  // Members that may be kept.
  uint32_t Kept() const;
  // What those that are there, or coming, were promised.
  Held stock() const;
  // A template of that image; null: none.
  const TemplateRecord* UserOf(const std::string& image) const;

  // That a create names. kNotFound: it is none, or none of it has been ready.
  Result<const TemplateRecord*> Usable(const std::string& id) const;
  // Answers the create: at once, or when there is a member for it, or will be none.
  void Claim(const Caller& caller, const Wanted& wanted, std::shared_ptr<Attempt> attempt);

  // A create is on its way: nothing is built for a while, and members go if it needs their room.
  void GiveWay();
  // From time to time: members that are not what they would be now go; others are built.
  void Look();
  // A watcher of the machine: a member that was built runs, or has ended.
  void OnTransition(const Sandbox& sandbox, State before);
  // No member is left or will be: who waits is told so.
  void Stop();

  const TemplateStats& stats() const { return stats_; }

 private:
  struct Waiter {
    Caller caller;
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
    std::set<std::string> coming;  // are built, prepared or brought to rest
    std::deque<Waiter> waiters;
    int failures = 0;  // one after the other
    int64_t retry_us = 0;
    std::string trouble;
  };

  void Runs(const std::string& id);
  void Lost(const std::string& id, const std::string& why);
  // The same, but not from within what has ended it.
  void LoseLater(const std::string& id, std::string why);
  Result<Sandbox> MemberOf(const TemplateRecord& record) const;
  bool Adopt(const Sandbox& member);
  Template* OwnerOf(const std::string& member);
  size_t waiting() const;
  void Prepared(const std::string& id, const Status& prepared);
  void Rested(const std::string& id, const Status& rested);
  // What was coming is there, and belongs to who has waited longest. False: nobody has.
  bool GiveToWaiter(Template& of, const std::string& id);
  void Failed(Template& of, const std::string& why);
  void Succeeded(Template& of);
  // It is as the store has it, or will be with the next change.
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
