// Creates, finds, renews, deletes and expires sandboxes, and keeps their records true: the table of
// states.h is run here, and every step of it is in the store before anybody is told.
//
// A create is parsed by whoever asks (runtime/api); then it is checked, which has no effect, and
// all that it needs is acquired: its key, its share of the host, its volumes. What a client is told
// of is recorded before, and launched (launch.h).
//
// Thread rule: on the loop; nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cgroup/limits.h"
#include "cgroup/tree.h"
#include "images/image_store.h"
#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/copies/fork.h"
#include "runtime/sandbox/copies/rollback.h"
#include "runtime/sandbox/copies/snapshots.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/attempt.h"
#include "runtime/sandbox/create/builder.h"
#include "runtime/sandbox/create/launch.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/create/slot_sockets.h"
#include "runtime/sandbox/live/expiry.h"
#include "runtime/sandbox/live/idle_watch.h"
#include "runtime/sandbox/live/session_channels.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/recovery/recovery.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/names.h"
#include "runtime/sandbox/stock/preparations.h"
#include "runtime/sandbox/stock/templates.h"
#include "runtime/sandbox/stock/warm_pools.h"
#include "runtime/sandbox/store/gone_ids.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/idempotency.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

struct LifecycleConfig {
  std::string socket_directory;  // <run_dir>/sandboxes
  uint32_t instance = 0;
  cgroup::Limits defaults = cgroup::UsualLimits();
  std::vector<std::string> limits_available;  // from the spawner's hello
  std::string host_arch = "amd64";
  std::vector<std::string> allowed_images;  // rules of images/allowed.h; none: all are
  bool access_tokens = true;  // false: new sandboxes get none, and their execd asks for none
  std::optional<int64_t> max_timeout_seconds;  // that a create may ask for
  // How long a sandbox that has ended by itself stays readable if it has no deadline; none: until
  // it is deleted.
  std::optional<int64_t> keep_ended_seconds;
  // Accesses may renew those that ask for it, each at most once in this time; none: they do not.
  std::optional<int64_t> renew_interval_seconds;
  IdlePolicy idle;              // of sandboxes whose create says nothing
  bool pause_reclaims = false;  // likewise: their memory goes to swap while they are paused
  uint64_t swap_bytes = 0;      // of the spawner's area for that; 0: there is none
  // Of the sandbox in a slot, since it began.
  std::function<Result<uint64_t>(uint32_t slot)> cpu_micros = [](uint32_t) { return 0; };
  // Whether anything runs in a slot, asked while there is no spawner to tell.
  std::function<Result<bool>(uint32_t slot)> has_processes = [](uint32_t) { return true; };
  std::function<cgroup::GroupEvents(uint32_t slot)> group_events = [](uint32_t) {
    return cgroup::GroupEvents();
  };
  HostBudget budget;
  uint32_t parked_sandboxes = 64;  // of all pools and templates together, at most
  uint32_t automatic_pools = 0;    // of images and limits that were used last
  InterceptorProgram interceptor;  // of credential vaults
  // Of whose paths nothing is kept in a record's message (private_paths.h).
  std::vector<std::string> private_directories;
};

// Where records, spawner and kernel did not agree although nothing was under way.
enum class Difference : uint8_t {
  kOrphan,      // processes without a record
  kVanished,    // a record of a running one without processes
  kMissedExit,  // it has ended, and nobody was told
  kForgotten,   // recorded as being removed, and nobody is at it
  kStuck,       // being removed for a minute
  kFreeze,      // it should run and stands still, or the other way round
  kSlot,        // used by nobody, or prepared on one side only
  kLink,        // of a slot that has been free for long
  kStray,       // cgroup or files of a slot that is free
  kLoose,       // its processes are not in its cgroups
};
inline constexpr int kDifferences = 10;
std::string_view DifferenceName(int difference);

// Why there is none any more.
enum class End : uint8_t {
  kExit,     // process 1 ended with code 0
  kError,    // otherwise
  kStopped,  // process 1 ended, whatever its code, because a client had asked for that
  kOom,      // killed by the kernel for its memory
  kFailed,   // its entrypoint could not be started
  kDeleted,  // by request
  kExpired,
  kIdle,
  kLost,  // the host or the spawner was restarted
};
inline constexpr int kEnds = 9;

// Sandboxes of one Origin that were asked for, children of forks among them. Repeats of an
// Idempotency-Key do not count.
struct CreateStats {
  uint64_t ok = 0;
  uint64_t refused = 0;  // for what the request says or for want of room
  uint64_t error = 0;    // for a fault of ours or of the host's
  Distribution seconds;  // over those that are ok and did not wait for an image
};

struct LifecycleStats {
  std::array<CreateStats, kOrigins> creates{};
  // Part of `refused`: the host had no room.
  uint64_t refused_by_queue = 0, refused_by_host = 0;
  std::array<uint64_t, kEnds> ends{};
  Distribution resume_seconds;  // until a paused one runs, whoever asked
  uint64_t rolled_back = 0;
  uint64_t rollback_refused = 0;
  uint64_t rollback_failed = 0;
  uint64_t paused = 0;  // because somebody asked
  uint64_t idle_paused = 0;
  uint64_t woken = 0;      // by a request, out of idle_paused
  uint64_t reclaimed = 0;  // of all pauses, whose memory went to swap
  uint64_t kept = 0;       // should have, and did not
  uint64_t reclaimed_bytes = 0;
  std::array<Distribution, static_cast<size_t>(wire::Step::kCount)> step_seconds{};
  std::array<uint64_t, kDifferences> differences{};
};

class Lifecycle final : private Attempt::Owner,
                        private Launch::Owner,
                        private WarmPools::Owner,
                        private Templates::Owner {
 public:
  // All parts outlive it.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    launch::SpawnerClient& spawner;
    netpolicy::Network& network;
    images::ImageStore& images;
    Store& store;
    SlotPool& slots;
    Admission& admission;
    PendingImports& imports;
    images::Puller& puller;
    Volumes& volumes;
    ObjectVolumes& objects;
    Snapshots& snapshots;
    PoolStore& pools;
    TemplateStore& templates;
    EntrypointLogs& logs;
    History& history;
    Health& health;  // its subject is "sandboxes"
  };
  Lifecycle(const Parts& parts, LifecycleConfig config);
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;
  ~Lifecycle() override { loop_.Cancel(compare_timer_); }

  // Loads the records, then makes them and the host agree. Once, before anything else.
  Status Start(const wire::Greeting& hello);
  // The same for a spawner that replaced another while we ran.
  void Reconcile(const wire::Greeting& hello);
  // There is none, until Reconcile. Meanwhile the kernel is asked which sandboxes have ended.
  void OnSpawnerLost() { ticks_without_spawner_ = 1; }
  // For SpawnerClient::Start.
  void OnExit(const wire::SandboxRecord& record);
  void OnVolumeLost(const wire::VolumeLost& lost);

  // `done` is called, later or at once, when the sandbox runs and its record is safe, or with why
  // not; then nothing is left of it. If its image is being imported, it is called with a sandbox
  // that is Pending, and becomes Running, or Failed, behind that. kInvalidArgument: the spec;
  // kNotFound: the image; kAlreadyExists: the idempotency key; kResourceExhausted: come again
  // later; kUnavailable: the spawner is gone or we are stopping; kInternal: it could not be built.
  // If it is a volume that cannot be had: see Volumes::Acquire. If it is the snapshot: see
  // Snapshots::Usable. If it names a pool: see WarmPools::CheckRoom. If it names a template: see
  // Templates::Usable; it may have to wait for one to be ready.
  void Create(const Wanted& wanted, const Created& done);

  // Makes children with the files that the sandbox has now, and its spec, labels, volumes and
  // deadline; each with an id, tokens and addresses of its own, and none of its processes. `done`
  // is called when all of them run and their records are safe, or with why not: then nothing is
  // left of any. kNotFound; kFailedPrecondition: it does not live, has too many layers, is being
  // copied or ends; else as Create.
  void ForkSandbox(const std::string& id, const WantedFork& wanted, const Forked& done);

  // Gives it the files of the snapshot, which is of the same image. It keeps its id, tokens, spec,
  // labels, policy, volumes and deadline; its processes, their log and its addresses are new, and
  // its entrypoint has started, though it was paused. `done` is called when its record is safe and
  // it runs, or with why not: then it is as it was, unless it has ended meanwhile. A request
  // without a key joins a rollback to the same snapshot that is under way. kNotFound;
  // kFailedPrecondition: it does not live, or is being rolled back to another; else as Create.
  void RollBack(const std::string& id, const WantedRollback& wanted, const Created& done);

  // For creates from now on.
  void SetDefaultLimits(const cgroup::Limits& defaults) { config_.defaults = defaults; }

  // Null for the unknown and the deleted. Valid until the next call.
  const Sandbox* Find(const std::string& id) const;
  // Calls `then` when the sandbox has ended or is not there, at the latest after a second. For
  // whoever has lost its execd: why comes by another way, from the spawner, a moment later.
  void AwaitEnd(const std::string& id, std::function<void()> then);
  // Whether there was a sandbox of that id, and is none any more. Of the newest GoneIds::kKept.
  bool IsGone(const std::string& id);
  // In no order.
  std::vector<const Sandbox*> All() const;

  // Once it returns, the sandbox is not found any more and will be gone even if we die.
  Status Delete(const std::string& id);
  // Moves the deadline. kFailedPrecondition: it has none. kInvalidArgument: not in the future.
  Status Renew(const std::string& id, int64_t expires_at_ms);
  // Somebody has used the sandbox: moves the deadline of one that asked for it. Cheap, and never
  // fails visibly.
  void Touch(const std::string& id);
  // A client has its entrypoint signalled so that it ends: however it then ends, it has not failed.
  void Stopping(const std::string& id);
  // A request of a client's is on its way that its execd may need us for.
  void OpenSessions(const std::string& id);
  // Null removes a label, anything else sets it; others stay as they are.
  using MetadataPatch = std::map<std::string, std::optional<std::string>>;
  Status PatchMetadata(const std::string& id, const MetadataPatch& patch);

  // Its egress policy, from now on. kInvalidArgument: the policy, or that its vault's credentials
  // are bound to what it denies; then, and if it cannot be stored or enforced, the one before
  // holds.
  Status SetPolicy(const std::string& id, netpolicy::SharedPolicy policy);

  // Its credential vault; null: it has none. kNotFound; kFailedPrecondition: it can have none.
  Result<const vault::Vault*> FindVault(const std::string& id);
  // See Vaults::Set; kInvalidArgument: its network policy does not cover the vault.
  void SetVault(const std::string& id, vault::Vault vault, std::function<void(Status)> done);
  void RemoveVault(const std::string& id) { vaults_.Remove(id); }

  // `done` is called, later or at once, when every process of it stands still, or goes on.
  // kFailedPrecondition: it is in another state. Whoever asks for the same while it is under way
  // waits for it too.
  using Settled = std::function<void(Status)>;
  // A pause of the idle policy's becomes one of whoever asks for it, which no request ends.
  void Pause(const std::string& id, Settled done);
  void Resume(const std::string& id, Settled done);

  // A stranger's request to the sandbox, until the last copy is gone: the idle policy does not
  // pause the sandbox meanwhile. The request counts as use once the caller says that the sandbox
  // has answered it well. Null: there is no such sandbox, or it has no idle policy.
  std::shared_ptr<IdleWatch::Request> OpenRequest(const std::string& id);
  // The same for work of ours, which counts as use from now on.
  std::shared_ptr<const void> Use(const std::string& id);
  // `done` when it runs, at once if it does. Lets it go on if it Wakes; kFailedPrecondition: it is
  // in another state.
  void Wake(const std::string& id, Settled done);

  // Takes a snapshot of it, which is Creating when this returns; see Snapshots::Take.
  // kFailedPrecondition: it does not live, or has too many layers.
  Result<Snapshot> TakeSnapshot(const std::string& id, const std::string& name);
  // See Snapshots::Import. Of a failure nothing is left.
  void ImportSnapshot(UniqueFd archive, std::string name, Snapshots::Check check,
                      Snapshots::Imported done);
  // Once it returns, it is not found any more; what nobody else needs of it is gone soon.
  // kFailedPrecondition: it is being taken, or a sandbox that was restored from it has not ended.
  Status RemoveSnapshot(const std::string& id);

  // Has what it holds otherwise than its image, or than that snapshot if `snapshot` is one, written
  // into `out`, a pipe, as it is found, while it goes on; see wire::DiffUpper. kNotFound;
  // kFailedPrecondition: it does not live, the snapshot is not ready or of another image.
  void Diff(const std::string& id, const std::string& snapshot, bool archive, UniqueFd out,
            std::function<void(Status)> done);

  // Measures what a sandbox has written to disk. kNotFound; kFailedPrecondition: it has ended, and
  // its files with it; kResourceExhausted: too many are being measured.
  void MeasureDisk(const std::string& id, std::function<void(Result<wire::DiskUse>)> done);

  // Ends every sandbox, the spawner, and what the network holds. Nothing can be created afterwards.
  void Shutdown(std::function<void(Status)> done);

  // For images::ImageStore.
  bool LayerInUse(wire::LayerId layer) const {
    return layer_users_.contains(layer) || compared_.contains(layer) ||
           snapshots_.LayerInUse(layer) || pools_.LayerInUse(layer);
  }

  // By which its processes, their socket and their log are known; that itself of one that is not.
  std::string HostIdOf(const std::string& id) const;
  std::string SocketPathOf(const std::string& id) const {
    return SocketPath(config_.socket_directory, HostIdOf(id));
  }
  // Its IPv4 and IPv6 address; empty if it has none (any more).
  std::vector<std::string> AddressesOf(const Sandbox& sandbox) const;
  // What creates are claimed from.
  WarmPools& pools() { return pools_; }
  const WarmPools& pools() const { return pools_; }
  Templates& templates() { return templates_; }
  const Templates& templates() const { return templates_; }
  const LifecycleStats& stats() const { return stats_; }
  const Held& held() const { return held_; }
  const HostBudget& budget() const { return config_.budget; }
  // Sum of the events of all groups, those of ended sandboxes included.
  cgroup::GroupEvents group_events() const;
  // The slots of those that have processes, by host id.
  std::unordered_map<std::string, uint32_t> LiveGroups() const;
  // Takes counts that the pool has read.
  void SetGroupEvents(const std::unordered_map<std::string, cgroup::GroupEvents>& read);
  uint64_t swap_bytes() const { return config_.swap_bytes; }
  const SnapshotStats& snapshot_stats() const { return snapshots_.stats(); }
  size_t size() const { return entries_.size(); }

 private:
  // A sandbox and what only this process knows of it.
  struct Entry {
    Sandbox sandbox;
    // What it was, until that has gone. Without a host id: as an earlier daemon knew.
    struct Former {
      std::string host_id;
      uint32_t slot = 0;
    };
    std::optional<Former> former;
    // From its acquisition until its entrypoint is known to run, or what was built is released.
    std::shared_ptr<Launch> launch;
    std::shared_ptr<Attempt> attempt;  // that makes it; null: the store has its record
    std::shared_ptr<Fork> fork;        // of which it is a child, until all of them run
    // Wait for the end of a pause's, resume's or rollback's way.
    std::vector<Settled> settled;
    std::optional<std::string> start_failure;  // as execd reports it; its output is still coming
    bool stopping = false;                     // a client wants its entrypoint to end
    std::set<uint32_t> lost_volumes;           // of its spec's, that have been told
    int64_t touched_ms = 0;                    // when an access last moved the deadline
    // Numbers of the orders under way, or 0: answers to earlier ones count no more.
    uint64_t releasing = 0;        // to destroy it
    uint64_t freezing = 0;         // to freeze or thaw it; not reset
    int64_t release_asked_us = 0;  // the first time
    int64_t freeze_asked_us = 0;   // for that order, to freeze or thaw it
    Origin origin = Origin::kCold;
    bool oom_killed = false;
    cgroup::GroupEvents events;  // as last read
  };
  // What a record shows as the cause of its state. Empty: that of the state before.
  struct Cause {
    std::string reason;
    std::string message;
  };
  // A create of which all is known, and nothing has an effect yet.
  struct Checked {
    Sandbox sandbox;
    std::string awaited_image;  // empty: it is there
  };

  // Of what is known of it before it is used.
  Status CheckImage(const Spec& spec, const Snapshot* snapshot) const;
  // `snapshot`: that it is to be restored of; null: none.
  Result<Checked> Check(const Wanted& wanted, const Snapshot* snapshot) const;
  // kAlreadyExists: it asks to be the only one of its name, and is not.
  Status CheckName(const Sandbox& sandbox) const;
  // kInvalidArgument: its memory is to go to swap, and there is none here.
  Status CheckReclaim(Spec& spec) const;
  // What tells it from others of its kind, as far as that is checked: deadline, name, policy and
  // idleness; and whether the host has room for it.
  Status SetTerms(const Wanted& wanted, Sandbox& sandbox) const;
  void CountCreated(Origin origin, int64_t took_us);
  void CountEnd(const Entry& entry);
  // Of what is built ahead, for a create.
  void GiveWay();
  // Null: we are stopping, or a request of that key was made before; it is answered, or will be.
  std::shared_ptr<Attempt> NewAttempt(Attempt::Request request, const Attempt::Answered& answered);
  Attempt::Parts AttemptParts() { return {*this, idempotency_, store_, alive_}; }
  // Shows the sandbox that has come of an attempt.
  Attempt::Answered AnswerOf(const Created& done);
  // Counts and logs what has failed.
  void TakeBack(const Attempt& attempt, const CreateError& why) override;
  // Ends a sandbox that no client was told of.
  void Abandon(Entry& entry, const Cause& cause);
  // Behind keys and pools, which say what is wanted.
  using SharedAttempt = std::shared_ptr<Attempt>;
  void Make(const Wanted& wanted, const SharedAttempt& attempt);
  void MakeOfPool(const Wanted& wanted, const SharedAttempt& attempt);
  void MakeOfTemplate(const Wanted& wanted, const SharedAttempt& attempt);
  Result<Checked> CheckMember(const TemplateRecord& record) const;
  // A member, as that create's.
  Result<Sandbox> ClaimedOf(const Wanted& wanted, Sandbox member) const;
  void MemberRuns(const std::string& id);
  void MemberLost(const std::string& id, const std::string& why);
  // At start: those that were ready go on waiting, others go.
  void AdoptMembers();
  // With what the pool says and the request does not.
  Result<Wanted> FillFromPool(const Wanted& wanted) const;
  // Null: it is to be built.
  std::unique_ptr<ParkedSandbox> Claim(Checked& checked, const Wanted& wanted);
  void Acquire(Checked checked, const Wanted& wanted, const SharedAttempt& attempt);
  void HaveVolumes(const std::string& id, const std::vector<VolumeMount>& mounts);
  void Acquired(const std::string& id);
  Result<std::vector<Sandbox>> CheckFork(const std::string& id, size_t count);
  void AddChild(const std::shared_ptr<Fork>& fork, Sandbox child);
  std::vector<Sandbox> ChildrenOf(const std::vector<std::string>& ids);
  // Its layer is there, or why not.
  void LaunchChildren(const std::shared_ptr<Fork>& fork, const Result<uint64_t>& bytes);
  void ChildBuilt(Entry& child);
  // What it is to be, in no slot yet.
  tl::expected<Sandbox, CreateError> CheckRollback(const std::string& id,
                                                   const std::string& snapshot_id);
  // The same without a key: true if it waits for one to that snapshot.
  bool JoinRollback(const std::string& id, const WantedRollback& wanted,
                    const Attempt::Answered& answered);
  // Null: that is none's next.
  Rollback* FindRollback(const std::string& host_id);
  Result<const Sandbox*> BeginRollback(Rollback& rollback, uint32_t slot);
  void RollbackBuilt(const std::string& host_id);
  // Gives back what was built for it, or was to be.
  void DropRollback(const Attempt& attempt);
  void DestroyFormer(const Entry& entry);
  // Looks whose has, since orphans_ has changed.
  void FormersGone();
  void StartEntrypoint(Entry& entry);
  // It was being rolled back when the daemon died: what was built for it then is an orphan.
  void BeginAnew(Sandbox& sandbox);
  Status UseImage(Sandbox& sandbox, images::Image image) const;
  Status UseSnapshot(Sandbox& sandbox, const Snapshot& snapshot) const;
  // The name to wait for, if the image that is missing is being imported or may be pulled; else why
  // it is.
  Result<std::string> AwaitedImage(const std::string& name, const Error& missing) const;
  void PullUnlessThere(const std::string& image, Launch& launch);
  void AwaitImage(Entry& entry);
  Status TakeImage(Entry& entry);
  // Nothing comes of it, and whoever waits is told why.
  void Refuse(Entry& entry, const CreateError& error);
  // Its record is in the store: nothing of it is taken back any more, and its create is answered.
  void Acknowledge(Entry& entry);
  void Published(Entry& entry);

  // What its launch tells, by its host id.
  void Progress(const std::string& id, const std::string& text) override;
  void Imported(const std::string& id, const Status& imported) override;
  Result<const Sandbox*> Begin(const std::string& host_id, uint32_t slot) override;
  const Sandbox* Begun(const std::string& host_id) override;
  void NotMounted(const std::string& host_id, Error error) override;
  void SlotLost(const std::string& host_id) override;
  void Built(const std::string& host_id, const wire::Built& built) override;
  void Failed(const std::string& host_id, Error error) override;
  void NotCreated(const std::string& host_id, const CreateError& error);
  void Reported(const std::string& host_id, Result<wire::StartReport> report) override;

  // For pools.
  Result<Sandbox> NewMember(const PoolRecord& pool) const override;
  Status CheckRoom(const Held& stock, const Spec& member) const override;
  // Both of a launch and of pools.
  void Dispose(const std::string& id, uint32_t slot) override;

  // For templates.
  Result<Sandbox> MemberOf(const TemplateRecord& record) const override;
  Status CheckStock(const Spec& member, bool another) const override;
  void BuildMember(const TemplateRecord& record, const std::string& id) override;
  void PrepareMember(const std::string& id, const wire::Preparation& wanted,
                     std::function<void(Status)> done) override;
  void RestMember(const std::string& id, std::function<void(Status)> done) override;
  void DisposeMember(const std::string& id) override;
  void GiveMember(const std::string& id, const Wanted& wanted, SharedAttempt attempt) override;
  const Sandbox* FindMember(const std::string& id) const override;
  uint32_t KeptByPools() const override { return pools_.Kept(); }
  uint32_t KeptByTemplates() const override { return templates_.Kept(); }

  // Members that the spawner has not, or no more.
  struct LostMembers {
    uint64_t vanished = 0;
    uint64_t exited = 0;
  };
  LostMembers CompareMembers(const wire::Greeting& hello, RecoveryPlan& plan);

  // The report has come: what follows it is output.
  void FollowOutput(Entry& entry);
  void FailStart(Entry& entry);
  void Note(const Sandbox& sandbox, std::string kind);

  // Does what the table says for `event`. The new state is in the store before anything follows
  // from it; if it cannot be written, nothing has changed. The entry may be gone afterwards.
  Status Apply(Entry& entry, Event event, const Cause& cause);
  // For what has happened whether or not it could be written down.
  void ApplyAnyway(Entry& entry, Event event, const Cause& cause);
  // The three parts of it: the record in memory, in the store, and what follows.
  void Enter(Sandbox& sandbox, State next, const Cause& cause) const;
  Status Record(Entry& entry, State before, Action action);
  void Entered(Entry& entry, State before, Action action);
  // The store holds no row for a sandbox whose create has not been acknowledged.
  static bool IsRecorded(const Entry& entry) { return entry.attempt == nullptr; }

  void Switch(const std::string& id, Event event, const char* reason, const char* message,
              Settled done);
  void SwitchEntry(Entry& entry, Event event, const char* reason, const char* message,
                   const Settled& done);
  void AskFreeze(Entry& entry, bool frozen);
  // Has the memory of one that is paused brought to swap, if it is to be. Behind the answer to who
  // asked for the pause, which stands whatever comes of it.
  void AskReclaim(const Entry& entry);
  void Reclaimed(const std::string& id, uint64_t order, const Result<wire::Reclaimed>& reclaimed);
  // A pause of the idle policy's, or its beginning, is that of a client from now on.
  void TakeOver(Entry& entry, Settled done);
  void OnIdle(const std::string& id);
  // Of one that stands still by what it says now: for a client, or because it was idle.
  static Cause PausedCause(const Sandbox& sandbox);
  void WatchIdle(const Entry& entry, State before);
  void Settle(Entry& entry, const Status& status);
  void AwaitEndUntil(const std::string& id, int64_t deadline_us, std::function<void()> then);
  void SetDeadline(const Entry& entry);
  void Release(Entry& entry);
  void Destroyed(const std::string& id, uint64_t order, Status status);
  void Forget(Entry& entry);

  Entry* Look(const std::string& id);
  Entry* LookHost(const std::string& host_id);
  // To clients.
  static bool IsVisible(const Entry& entry);
  Result<Entry*> Visible(const std::string& id);
  // What counts as used in a state that Holds.
  void Hold(const Sandbox& sandbox);
  void Drop(const Sandbox& sandbox);
  void HoldLayers(const Sandbox& sandbox);
  void DropLayers(const Sandbox& sandbox);

  // Logs and history: what fails here costs them, not the sandboxes.
  void StartDiagnostics();
  // The spawner holds our rules when we are gone.
  void KeepRules();
  // At start: those that an earlier daemon had acknowledged, and can build no more.
  void GiveUpPending(const wire::Greeting& hello);
  void RemoveStaleSockets() const;
  // With what their sandboxes may reach.
  std::vector<netpolicy::LiveSlot> LiveSlots(const std::vector<uint32_t>& numbers) const;
  RecoveryPlan PlanFor(const wire::Greeting& hello) const;
  void CarryOut(const RecoveryPlan& plan);
  std::vector<uint32_t> OwnedSlots() const;
  void DestroyOrphan(const wire::SandboxRecord& record);

  void CompareLater();
  // Those whose processes are gone; after some seconds without a spawner.
  void EndWithoutSpawner();
  // True if something differed.
  bool Compare(const wire::Greeting& hello);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  netpolicy::Network& network_;
  images::ImageStore& images_;
  Store& store_;
  SlotPool& slots_;
  PendingImports& imports_;
  images::Puller& puller_;
  Volumes& volumes_;
  ObjectVolumes& objects_;
  Snapshots& snapshots_;
  EntrypointLogs& logs_;
  History& history_;
  Health& health_;
  LifecycleConfig config_;

  Builder builder_;
  SessionChannels sessions_;
  Vaults vaults_;
  const Launch::Parts launch_parts_;
  Preparations preparations_;
  WarmPools pools_;
  Templates templates_;
  Expiry expiry_;
  IdleWatch idle_;
  std::unique_ptr<GoneIds> gone_;  // from Start on
  std::unordered_map<std::string, Entry> entries_;
  Names names_;                                            // of `entries_`
  std::unordered_map<std::string, std::string> host_ids_;  // to ids, of those that differ
  std::map<std::string, Rollback> rollbacks_;              // by the host ids of what they build
  std::unordered_map<wire::LayerId, uint32_t> layer_users_;
  std::set<std::string> diffs_;            // sandboxes whose difference is under way
  std::multiset<wire::LayerId> compared_;  // layers that those differences read
  Held held_;                              // by all that hold, but for those in stock
  Idempotency idempotency_;
  LifecycleStats stats_;
  cgroup::GroupEvents ended_events_;         // of those that have ended
  uint64_t orders_ = 0;                      // the number of the latest
  std::map<std::string, uint32_t> orphans_;  // being destroyed, and their slots
  Loop::Id compare_timer_ = 0;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  int quiet_ticks_ = 0;
  int ticks_without_spawner_ = 0;  // 0: there is one
  uint64_t removed_ = 0;           // sandboxes of which nothing is left
  uint64_t removed_seen_ = 0;      // at the last tick
  uint64_t removed_compared_ = 0;  // at the last comparison
  bool stopping_ = false;
};

}  // namespace atl::sandbox
