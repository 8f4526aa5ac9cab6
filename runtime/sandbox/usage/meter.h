// Meters what sandboxes use: reads the kernel's counters every ten seconds and takes the last
// reading of each sandbox from the spawner, into the ledger.
//
// The ledger belongs to a thread of its own, because a transaction for a thousand sandboxes takes
// longer than the loop may. Beginnings and ends are committed within a tenth of a second. A daemon
// that starts begins the sandboxes that an earlier one has not stored, so only the use of those
// that also ended within that time is unallocated.
//
// Thread rule: on the loop. The functions in Sources are called on the meter's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cgroup/meters.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/tenants/usage/ledger.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Meter {
 public:
  struct LinkBytes {
    uint64_t in = 0;  // the sandbox receives
    uint64_t out = 0;
  };
  struct Sources {
    std::shared_ptr<tenants::Ledger> ledger;  // null: nothing is metered, and no thread runs
    std::function<Result<cgroup::Meters>(uint32_t slot)> read;
    // Returns the processor time of all groups together, removed ones included.
    std::function<Result<uint64_t>()> read_host_cpu;
    std::function<std::map<uint32_t, LinkBytes>()> read_links;  // key: the slot
    // Called on the loop. Returns the processor time that the preparation of the slot took.
    std::function<uint64_t(uint32_t slot)> prepared_cpu;
    // Called on the loop. Returns the bytes of all ready snapshots, by owner.
    std::function<std::map<std::string, uint64_t>()> snapshot_bytes;
  };
  // The references outlive this object.
  Meter(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner, const Registry& registry,
        Sources sources);
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;
  // Waits until the thread has written what it has.
  ~Meter();

  bool on() const { return sources_.ledger != nullptr; }

  // Call when the registry is complete. What was told before is written then.
  // kResourceExhausted: the kernel allows no more threads.
  Status Start();
  // Call for each new spawner: asks for the readings that no daemon has stored.
  void AskForEnds();
  // A watcher of the machine.
  void OnTransition(const Sandbox& sandbox, State before);
  // A member of a template has got its client.
  void OnClaimed(const Sandbox& sandbox);
  // Snapshots have come or gone.
  void OnSnapshots();
  // Pools keep so many sandboxes.
  void OnPools(uint64_t members);
  // A client has begun a command in the sandbox.
  void OnCommand(const Sandbox& sandbox);
  // A sandbox, or a former version of one, is destroyed.
  void OnDestroyed(const std::string& host_id, const wire::EndReading& end);

  // Reads and stores all counters, then calls `done`; at once if metering is off.
  void Checkpoint(std::function<void()> done);
  // Reads all counters, then asks the ledger. A question about named sandboxes reads no counters,
  // so the answer is as old as the last sample or, if they are gone, final. kUnimplemented:
  // metering is off.
  using Answered = std::function<void(Result<tenants::UsageAnswer>)>;
  void Query(tenants::UsageQuery query, Answered done);

  // Seconds since the last commit of all counters, or since the daemon's start. Negative: metering
  // is off.
  int64_t CheckpointAge() const;

 private:
  using Job = std::function<void(tenants::Ledger& ledger)>;
  using Question = std::function<Result<tenants::UsageAnswer>(tenants::Ledger& ledger)>;
  struct Asked {
    uint64_t number = 0;
    Question question;
  };
  // The state of a living part as the thread knows it.
  struct Known {
    std::string host_id;
    tenants::Held held;
    std::map<std::string, std::string> labels;
  };
  // The state that both threads use.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Job> jobs;
    std::vector<std::string> ended;  // host ids whose readings are among the jobs
    bool hurry = false;              // a job does not wait for others
    bool sample = false;             // all counters are to be read
    bool stop = false;
    std::deque<Asked> questions;
    int64_t committed_us = 0;  // time of the boot clock
  };

  void Tick();
  void MeasureDisks();
  void TellCommands();
  // Tells the thread of a living sandbox, or what has changed of it.
  void Refresh(const Sandbox& sandbox);
  // Tells the thread what owners keep, if that has changed.
  void TellKept();
  void Begin(const Sandbox& sandbox, const tenants::Held& held);
  void Tell(Job job, bool hurry = false);
  void Settle(std::vector<std::string> host_ids);
  void Ask(bool sample, Question question, Answered done);
  void Answer(uint64_t number, Result<tenants::UsageAnswer> answer);
  void OnEnds(const wire::Ends& ends);

  // These run on the meter's thread.
  void Run();
  // kNotFound: the group is gone, and the spawner has the last reading.
  Result<tenants::UsageReading> Read(uint32_t slot,
                                     const std::map<uint32_t, LinkBytes>& links) const;
  void Sample();
  void Commit(bool durable, std::vector<std::string>* ended);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  const Registry& registry_;
  const Sources sources_;
  std::unordered_map<std::string, Known> known_;              // key: the sandbox's id
  std::unordered_map<std::string, std::string> parked_;       // members of templates: id, owner
  std::optional<std::map<std::string, tenants::Held>> kept_;  // last told to the thread; key: owner
  std::unordered_map<std::string, int64_t> commands_;         // not told yet; key: the host id
  // Callers of questions, by number. They may hold a request, which the thread must not free.
  std::unordered_map<uint64_t, Answered> waiting_;
  uint64_t asked_ = 0;
  Loop::Id timer_ = 0;
  uint64_t ticks_ = 0;
  bool listing_ = false;  // the spawner has readings that it has not listed yet
  mutable Shared shared_;
  std::unordered_map<std::string, uint32_t> slots_;  // living parts; the thread's
  bool failing_ = false;                             // the last commit failed; the thread's
  bool blind_ = false;                               // the last sample failed; the thread's
  std::thread thread_;
  const Guard guard_;
};

}  // namespace atl::sandbox
