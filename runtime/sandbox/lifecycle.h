// Creates, finds, renews, deletes and expires sandboxes, and keeps their records true: the table of
// states.h is run here, and every step of it is in the store before anybody is told.
//
// Thread rule: on the loop; nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cgroup/limits.h"
#include "images/image_store.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/admission.h"
#include "runtime/sandbox/builder.h"
#include "runtime/sandbox/entrypoint_logs.h"
#include "runtime/sandbox/expiry.h"
#include "runtime/sandbox/gone_ids.h"
#include "runtime/sandbox/history.h"
#include "runtime/sandbox/host_budget.h"
#include "runtime/sandbox/idempotency.h"
#include "runtime/sandbox/pending_imports.h"
#include "runtime/sandbox/recovery.h"
#include "runtime/sandbox/sandbox.h"
#include "runtime/sandbox/slot_pool.h"
#include "runtime/sandbox/slot_sockets.h"
#include "runtime/sandbox/store.h"
#include "runtime/sandbox/volumes.h"

namespace atl::sandbox {

struct LifecycleConfig {
  std::string socket_directory;  // <run_dir>/sandboxes
  uint32_t instance = 0;
  cgroup::Limits defaults = cgroup::UsualLimits();
  std::vector<std::string> limits_available;  // from the spawner's hello
  size_t builds_at_once = 2;
  size_t build_queue = 1024;
  std::string host_arch = "amd64";
  bool access_tokens = true;  // false: new sandboxes get none, and their execd asks for none
  // See EntrypointLogs::Config.
  std::string log_directory;
  uint64_t log_max_bytes = 2 << 20;
  int64_t log_keep_after_removal_seconds = 0;
  std::optional<int64_t> max_timeout_seconds;  // that a create may ask for
  // How long a sandbox that has ended by itself stays readable if it has no deadline; none: until
  // it is deleted.
  std::optional<int64_t> keep_ended_seconds;
  // Accesses may renew those that ask for it, each at most once in this time; none: they do not.
  std::optional<int64_t> renew_interval_seconds;
  HostBudget budget;
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
};
inline constexpr int kDifferences = 9;
std::string_view DifferenceName(int difference);

struct LifecycleStats {
  uint64_t created = 0;
  uint64_t create_failed = 0;
  uint64_t deleted = 0;
  uint64_t expired = 0;
  uint64_t exited = 0;
  uint64_t create_micros = 0;  // from the request to the acknowledged record, over `created`
  uint64_t build_micros = 0;   // of it, in the spawner
  std::array<uint64_t, static_cast<size_t>(wire::Step::kCount)> step_micros{};
  std::array<uint64_t, kDifferences> differences{};
};

class Lifecycle {
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
    Volumes* volumes = nullptr;  // none: sandboxes have none
    Health* health = nullptr;    // its subject is "sandboxes"; none: the metrics say it alone
  };
  Lifecycle(const Parts& parts, LifecycleConfig config);
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;
  ~Lifecycle() { loop_.Cancel(compare_timer_); }

  // Loads the records, then makes them and the host agree. Once, before anything else.
  Status Start(const wire::Reply& hello);
  // The same for a spawner that replaced another while we ran.
  void Reconcile(const wire::Reply& hello);
  // For SpawnerClient::Start.
  void OnExit(const wire::SandboxRecord& record);

  // `done` is called, later or at once, when the sandbox runs and its record is safe, or with why
  // not; then nothing is left of it. If its image is being imported, it is called with a sandbox
  // that is Pending, and becomes Running, or Failed, behind that. kInvalidArgument: the spec;
  // kNotFound: the image; kResourceExhausted: come again later; kUnavailable: the spawner is gone
  // or we are stopping; kInternal: it could not be built.
  using Created = std::function<void(Result<Sandbox>)>;
  void Create(CreateSpec spec, Created done);
  // For who acquires something before Create: answers what would be refused already, or is a
  // repetition, so that nothing need be acquired. False: it is not answered; Create decides again.
  bool AnswerEarly(const CreateSpec& spec, Created& done);

  // An image of this normalised name is on its way, and `status` tells what became of it.
  PendingImports::Id ImportBegins(const std::string& image, PendingImports::Progress progress);
  void ImportEnds(PendingImports::Id id, const Status& status);

  // For creates from now on.
  void SetDefaultLimits(const cgroup::Limits& defaults) { config_.defaults = defaults; }

  // Null for the unknown and the deleted. Valid until the next call.
  const Sandbox* Find(const std::string& id) const;
  // Whether there was a sandbox of that id, and is none any more. Of the newest GoneIds::kKept.
  bool IsGone(const std::string& id);
  // In no order.
  std::vector<const Sandbox*> All() const;

  // Once it returns, the sandbox is not found any more and will be gone even if we die.
  Status Delete(const std::string& id);
  // Moves the deadline. kFailedPrecondition: it has none. kInvalidArgument: not in the future.
  Status Renew(const std::string& id, int64_t expires_at_ms);
  // Somebody uses the sandbox: moves the deadline of one that asked for it. Cheap, and never fails
  // visibly.
  void Touch(const std::string& id);
  // Null removes a label, anything else sets it; others stay as they are.
  using MetadataPatch = std::map<std::string, std::optional<std::string>>;
  Status PatchMetadata(const std::string& id, const MetadataPatch& patch);

  // Its egress policy, from now on. kInvalidArgument: the policy; then, and if
  // it cannot be stored or enforced, the one before holds.
  Status SetPolicy(const std::string& id, netpolicy::SharedPolicy policy);

  // `done` is called, later or at once, when every process of it stands still, or goes on.
  // kFailedPrecondition: it is in another state. Whoever asks for the same while it is under way
  // waits for it too.
  using Settled = std::function<void(Status)>;
  void Pause(const std::string& id, Settled done);
  void Resume(const std::string& id, Settled done);

  // Ends every sandbox, the spawner, and what the network holds. Nothing can be created afterwards.
  void Shutdown(std::function<void(Status)> done);

  // For images::ImageStore.
  bool LayerInUse(wire::LayerId layer) const { return layer_users_.contains(layer); }

  std::string SocketPathOf(const std::string& id) const {
    return SocketPath(config_.socket_directory, id);
  }
  Volumes* volumes() const { return volumes_; }
  EntrypointLogs& logs() { return logs_; }
  netpolicy::Network& network() { return network_; }
  const netpolicy::Network& network() const { return network_; }
  // What has happened to a sandbox that is still found. Oldest first.
  Result<std::vector<HistoryEvent>> HistoryOf(const std::string& id);
  // Its IPv4 and IPv6 address; empty if it has none (any more).
  std::vector<std::string> AddressesOf(const Sandbox& sandbox) const;
  const LifecycleStats& stats() const { return stats_; }
  const Admission& admission() const { return admission_; }
  const SlotPool& slots() const { return slots_; }
  size_t size() const { return entries_.size(); }

 private:
  // A sandbox and what only this process knows of it.
  struct Entry {
    Sandbox sandbox;
    images::ImageConfig config;    // until it is built
    std::string awaited;           // name of the image while it waits for that; else empty
    std::vector<Created> created;  // until the create is answered
    std::string idempotency_key;   // until then
    std::string fingerprint;
    std::string request_id;
    int64_t asked_us = 0;
    std::optional<wire::SandboxRecord> early_exit;
    std::unique_ptr<ControlChannel> control;  // until the report has come
    std::vector<Settled> settled;             // wait for the end of a pause's or resume's way
    int64_t touched_ms = 0;                   // when an access last moved the deadline
    int lost_slots = 0;
    bool stored = false;
    bool holds = false;
    bool building = false;  // waits for its turn, or is being built: an answer is to come
    bool spawned = false;   // the spawner may know it
    bool built = false;     // its slot has been used up
    // Numbers of the orders under way, or 0: answers to earlier ones count no more.
    uint64_t releasing = 0;        // to destroy it
    uint64_t freezing = 0;         // to freeze or thaw it; not reset
    int64_t release_asked_us = 0;  // the first time
  };
  // What a record shows as the cause of its state.
  struct Cause {
    std::string reason;
    std::string message;
  };

  Result<Entry> Prepare(const CreateSpec& spec) const;
  Status UseImage(Entry* entry, images::Image image) const;
  void Enqueue(Entry& entry);
  // The name to wait for, if the image that is missing is being imported; else why it is.
  Result<std::string> AwaitedImage(const std::string& name, const Error& missing) const;
  void AwaitImage(Entry& entry);
  Status UseAwaited(Entry& entry, const std::string& name) const;
  void ShowProgress();
  void RepeatProgress();
  // At start: those that an earlier daemon had acknowledged, and can build no more.
  void GiveUpPending(const wire::Reply& hello);
  // True if the request was made before: `done` has been, or will be, called with what came of it.
  bool Repeated(const CreateSpec& spec, Created& done);
  static std::optional<KeyRecord> KeyOf(const Entry& entry);
  void TakeTurn(const std::string& id);
  void GotSlot(const std::string& id, Result<SlotPool::Ready> slot);
  // True if the spawner had the slot no more (its execd was killed in stock, by the host's
  // out-of-memory killer for instance) and another one is worth taking.
  bool LostSlot(const std::string& id, const Error& error);
  void Built(const std::string& id, Result<BuiltSandbox> result);
  void BuildFailed(Entry& entry, Error error);
  void Published(Entry& entry);
  void Reported(const std::string& id, Result<wire::StartReport> report);
  void Exited(Entry& entry, const wire::SandboxRecord& record);
  void EndTurn();
  // The report has come: what follows it is output.
  void FollowOutput(Entry& entry);
  // Logs and history: what fails here costs them, not the sandboxes.
  void StartDiagnostics();
  void Note(const Sandbox& sandbox, std::string kind);

  // Does what the table says for `event`. The new state is in the store before anything follows
  // from it; if it cannot be written, nothing has changed. The entry may be gone afterwards.
  Status Apply(Entry& entry, Event event, const Cause& cause);
  // For what has happened whether or not it could be written down.
  void ApplyAnyway(Entry& entry, Event event, const Cause& cause);
  void Perform(Entry& entry, Action action);
  void Switch(const std::string& id, Event event, const char* reason, const char* message,
              Settled done);
  void AskFreeze(Entry& entry, bool frozen);
  void Settle(Entry& entry, const Status& status);
  void SetDeadline(const Entry& entry);
  void Release(Entry& entry);
  void Destroyed(const std::string& id, uint64_t order, Status status);
  void PostReleased(Entry& entry);
  void Forget(Entry& entry);

  Entry* Look(const std::string& id);
  void KeepVolumes(const Entry& entry);
  void ReleaseVolumes(const std::string& id);
  // What counts as used as long as the sandbox may be running.
  void Hold(Entry& entry);
  void Drop(Entry& entry);
  void RemoveStaleSockets() const;
  // With what their sandboxes may reach.
  std::vector<netpolicy::LiveSlot> LiveSlots(const std::vector<uint32_t>& numbers) const;
  RecoveryPlan PlanFor(const wire::Reply& hello) const;
  void CarryOut(const RecoveryPlan& plan);
  std::vector<uint32_t> OwnedSlots() const;
  void DestroyOrphan(const wire::SandboxRecord& record);

  void CompareLater();
  // True if something differed.
  bool Compare(const wire::Reply& hello);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  netpolicy::Network& network_;
  images::ImageStore& images_;
  Store& store_;
  SlotPool& slots_;
  Volumes* const volumes_;
  Health* const health_;
  LifecycleConfig config_;

  Admission admission_;
  Builder builder_;
  Expiry expiry_;
  EntrypointLogs logs_;
  std::unique_ptr<History> history_;  // from Start on
  std::unique_ptr<GoneIds> gone_;     // likewise
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<wire::LayerId, uint32_t> layer_users_;
  Held held_;  // by all that hold layers
  PendingImports imports_;
  Idempotency idempotency_;
  LifecycleStats stats_;
  uint64_t orders_ = 0;                      // the number of the latest
  std::map<std::string, uint32_t> orphans_;  // being destroyed, and their slots
  Loop::Id compare_timer_ = 0;
  int quiet_ticks_ = 0;
  uint64_t removed_ = 0;           // sandboxes of which nothing is left
  uint64_t removed_seen_ = 0;      // at the last tick
  uint64_t removed_compared_ = 0;  // at the last comparison
  bool stopping_ = false;
};

}  // namespace atl::sandbox
