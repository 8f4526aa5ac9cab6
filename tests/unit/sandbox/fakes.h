// Fakes of the parts around runtime/sandbox: a loop and a clock that move only when the test moves
// them, and a spawner, a network and an image store that answer as the test says and record each
// request. Their destructors are in fakes.cc, so that the virtual functions are not emitted in
// every file that includes this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "images/image_store.h"
#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

inline constexpr char kId[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

class FakeClock final : public Clock {
 public:
  int64_t UnixMillis() const override { return unix_ms; }
  int64_t BootMicros() const override { return boot_us; }
  void Advance(int64_t us) {
    boot_us += us;
    unix_ms += us / 1000;
  }
  int64_t unix_ms = 1'700'000'000'000;
  int64_t boot_us = 1'000'000;
};

// Pass fires the timers that the clock passes. Run polls the descriptors.
class FakeLoop final : public Loop {
 public:
  explicit FakeLoop(FakeClock& clock);
  ~FakeLoop() override;

  Id Watch(int fd, uint32_t events, FdCallback callback) override {
    watches_[++last_id_] = {fd, events, std::move(callback)};
    return last_id_;
  }
  void Modify(Id id, uint32_t events) override { watches_.at(id).events = events; }
  void Unwatch(Id id) override { watches_.erase(id); }
  Id After(int64_t delay_us, Callback callback) override {
    Tell("timer set");
    timers_[++last_id_] = {clock_.boot_us + delay_us, std::move(callback)};
    return last_id_;
  }
  void Cancel(Id id) override {
    if (timers_.erase(id) != 0) Tell("timer cancelled");
  }
  void Post(Callback callback) override {
    Tell("posted");
    posted_.push_back(std::move(callback));
  }
  void RunBlocking(Callback work, Callback done) override {
    Tell("pool asked");
    work();
    posted_.push_back(std::move(done));
  }
  // Called before each call that changes what will run.
  std::function<void(const char* call)> on_call;

  // Runs everything that is ready, without moving the clock.
  void Run() {
    for (bool ran = true; ran;) {
      ran = false;
      while (!posted_.empty()) {
        const Callback callback = std::move(posted_.front());
        posted_.pop_front();
        callback();
        ran = true;
      }
      ran = FireOne() || ran;
    }
  }
  // Advances the clock by `us`, one timer after the other.
  void Pass(int64_t us) {
    const int64_t end = clock_.boot_us + us;
    Run();
    for (;;) {
      const auto next =
          std::min_element(timers_.begin(), timers_.end(),
                           [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
      if (next == timers_.end() || next->second.at > end) break;
      clock_.Advance(std::max<int64_t>(0, next->second.at - clock_.boot_us));
      Run();
    }
    clock_.Advance(end - clock_.boot_us);
    Run();
  }
  // Calls the watchers of ready descriptors, once.
  void Poll();
  size_t watching() const { return watches_.size(); }
  size_t timers() const { return timers_.size(); }

 private:
  struct Watched {
    int fd;
    uint32_t events;
    FdCallback callback;
  };
  struct Timer {
    int64_t at;
    Callback callback;
  };
  void Tell(const char* call) const {
    if (on_call) on_call(call);
  }
  bool FireOne() {
    for (auto it = timers_.begin(); it != timers_.end(); ++it) {
      if (it->second.at > clock_.boot_us) continue;
      const Callback callback = std::move(it->second.callback);
      timers_.erase(it);
      callback();
      return true;
    }
    return false;
  }

  FakeClock& clock_;
  Id last_id_ = 0;
  std::map<Id, Watched> watches_;
  std::map<Id, Timer> timers_;
  std::deque<Callback> posted_;
};

// Prepares and drops slots by itself, from the loop as the real spawner does. The test takes all
// other calls and answers them.
class FakeSpawner final : public launch::SpawnerClient {
 public:
  explicit FakeSpawner(FakeLoop& its_loop);
  ~FakeSpawner() override;

  struct PendingBuild {
    std::string id;
    uint32_t slot = 0;
    wire::Boxed<wire::Plan> plan;
    UniqueFd control;  // execd's end
    Done<wire::Built> done;
  };
  template <typename T>
  struct Pending {
    T what;
    Finished done;
  };

  void Start(Loop&, std::function<void(const wire::SandboxRecord&)> on_exit,
             std::function<void()> on_lost) override {
    exit = std::move(on_exit);
    lost = std::move(on_lost);
  }
  void Send(wire::Message message, Answered answered) override;
  void Do(wire::Hello, Done<wire::Greeting> done) { hellos.push_back(std::move(done)); }
  void Do(wire::Ping, const Finished& done) { done({}); }
  void Do(wire::PrepareSlot asked, Done<wire::PreparedSlot> done) {
    controls[asked.slot] = std::move(asked.control);
    tiers[asked.slot] = asked.tier;
    ahead[asked.slot] = asked.ahead;
    prepares.push_back({asked.slot, std::move(done)});
    if (answer_prepares) loop.Post([this] { AnswerPrepare(); });
  }
  void Do(wire::DropSlot asked, Finished done) {
    dropped.push_back(asked.slot);
    loop.Post([done = std::move(done)] { done({}); });
  }
  void Do(wire::Build asked, Done<wire::Built> done);
  void Do(wire::ChangeLimits asked, Finished done) {
    limits.push_back({std::move(asked), std::move(done)});
  }
  void Do(wire::Freeze asked, Finished done) {
    freezes.push_back({(asked.frozen ? "freeze " : "thaw ") + asked.id, std::move(done)});
  }
  void Do(wire::Reclaim asked, Done<wire::Reclaimed> done) {
    reclaims.push_back({std::move(asked.id), std::move(done)});
  }
  void Do(wire::Destroy asked, Done<wire::Destroyed> done) {
    destroys.push_back({std::move(asked.id), std::move(done)});
  }
  void Do(wire::CopyUpper asked, Done<wire::Copied> done) {
    copies.push_back({std::move(asked), std::move(done)});
  }
  void Do(wire::DiffUpper asked, Done<wire::Unpacked> done) {
    diffs.push_back({std::move(asked), std::move(done)});
  }
  void Do(wire::PublishLayer asked, Finished done) {
    publishes.push_back({asked.layer, std::move(done)});
  }
  void Do(wire::MakeVolume asked, Finished done) {
    const std::string limit =
        asked.disk_bytes == 0 ? "" : " of " + std::to_string(asked.disk_bytes);
    volume_calls.push_back({"make " + asked.name + limit, std::move(done)});
  }
  void Do(wire::RemoveVolume asked, Finished done) {
    volume_calls.push_back({"remove " + asked.name, std::move(done)});
  }
  void Do(const wire::MeasureVolume&, const Done<wire::DiskUse>& done) {
    done(wire::DiskUse{.bytes = 4096, .entries = 1});
  }
  void Do(const wire::CheckLayers&, const Done<wire::CheckedLayers>& done) {
    done(wire::CheckedLayers{.store = "store", .missing = {}});
  }
  void Do(const wire::MeasureSandbox&, const Done<wire::DiskUse>& done) {
    done(wire::DiskUse{.bytes = 8192, .entries = 2});
  }
  void Do(wire::CheckVolume asked, Finished done) {
    volume_calls.push_back({"check " + asked.volume.source, std::move(done)});
  }
  void Do(wire::MountObjects asked, Finished done) {
    mounts.push_back({std::move(asked), std::move(done)});
  }
  void Do(wire::KeepRules asked, const Finished& done) {
    rules_kept = std::move(asked.nfnetlink);
    done({});
  }
  void Do(wire::MeasureDisks, Done<wire::Disks> done) { measures.push_back(std::move(done)); }
  void Do(wire::StartInterceptor asked, Done<wire::Interceptor> done) {
    interceptors.push_back({std::move(asked), std::move(done)});
  }
  void Do(wire::Stop, const Finished& done) {
    stopped = true;
    stop_is_cut_off ? done(Fail(Code::kUnavailable, "gone")) : done({});
  }
  // Messages about images go to the image store's own fake.
  template <typename Message, typename Done>
  void Do(const Message&, const Done&) {}

  // Each answers the oldest call of its kind and returns the request.
  std::string AnswerVolume(Status status = {});
  wire::MountObjects AnswerMount(Status status = {});
  void AnswerPrepare();
  PendingBuild AnswerBuild(Result<wire::Built> built = wire::Built{42, {}});
  wire::ChangeLimits AnswerLimits(Status status = {});
  // Returns "freeze ID" or "thaw ID".
  std::string AnswerFreeze(Status status = {});
  std::string AnswerReclaim(Result<wire::Reclaimed> reclaimed);
  std::string AnswerDestroy(Result<wire::Destroyed> destroyed = wire::Destroyed());
  // Returns the report of a copy of so many bytes.
  static wire::Copied Report(uint64_t bytes);
  wire::CopyUpper AnswerCopy(Result<wire::Copied> copied = Report(4096));
  wire::LayerId AnswerPublish(Status status = {});
  void AnswerHello(Result<wire::Greeting> hello);

  UniqueFd rules_kept;
  bool answer_prepares = true;
  std::deque<Done<wire::Greeting>> hellos;
  std::optional<Error> prepare_error;
  std::deque<std::pair<uint32_t, Done<wire::PreparedSlot>>> prepares;
  std::map<uint32_t, UniqueFd> controls;  // execd's ends of prepared slots
  std::map<uint32_t, std::string> tiers;  // tier of each prepared slot
  std::map<uint32_t, bool> ahead;         // whether it booted what needs no image
  std::deque<PendingBuild> builds;
  std::deque<std::pair<std::string, Done<wire::Destroyed>>> destroys;
  std::deque<Pending<std::string>> volume_calls;
  std::deque<Pending<wire::MountObjects>> mounts;
  std::deque<Pending<wire::ChangeLimits>> limits;
  std::deque<Pending<std::string>> freezes;
  std::deque<std::pair<std::string, Done<wire::Reclaimed>>> reclaims;
  std::deque<std::pair<wire::CopyUpper, Done<wire::Copied>>> copies;
  std::deque<std::pair<wire::DiffUpper, Done<wire::Unpacked>>> diffs;
  std::deque<Pending<wire::LayerId>> publishes;
  std::deque<Done<wire::Disks>> measures;
  std::deque<std::pair<wire::StartInterceptor, Done<wire::Interceptor>>> interceptors;
  std::vector<uint32_t> dropped;
  bool stopped = false;
  bool stop_is_cut_off = false;
  std::function<void(const wire::SandboxRecord&)> exit;
  std::function<void()> lost;
  // Called with each message before the fake carries it out.
  std::function<void(const wire::Message& message)> on_message;
  FakeLoop& loop;
};

class FakeNetwork final : public netpolicy::Network {
 public:
  FakeNetwork();
  ~FakeNetwork() override;
  Status Start(Loop&, Health&) override { return {}; }
  uint64_t repairs() const override { return 0; }
  const netpolicy::DnsCounts& dns_counts() const override { return counts; }
  Status AttachSlot(uint32_t slot, int) override {
    if (attach_error) return Fail(*attach_error);
    attached.insert(slot);
    return {};
  }
  Status DetachSlot(uint32_t slot) override {
    attached.erase(slot);
    detached.push_back(slot);
    return {};
  }
  bool SlotLinkGone(uint32_t slot) override { return !lingering.contains(slot); }
  Status ClaimSlot(uint32_t slot, const netpolicy::SlotRequest& request) override {
    if (claim_error) return Fail(*claim_error);
    claimed[slot] = request;
    return {};
  }
  Status CheckRequest(const netpolicy::SlotRequest&) const override {
    if (request_error) return Fail(*request_error);
    return {};
  }
  void SetCeilings(netpolicy::CeilingOf its_ceilings) override {
    ceilings = std::move(its_ceilings);
  }
  Result<std::shared_ptr<const netpolicy::Egress>> MakeReady(
      netpolicy::SharedPolicy policy, const std::string& tenant) const override {
    if (request_error) return Fail(*request_error);
    return netpolicy::Egress::Make(std::move(policy), {}, {},
                                   ceilings ? ceilings(tenant) : nullptr);
  }
  Status SetPolicy(uint32_t slot, std::shared_ptr<const netpolicy::Egress> egress) override {
    if (claim_error) return Fail(*claim_error);
    claimed[slot].policy = egress->policy();
    return {};
  }
  void SetInterceptor(uint32_t slot, std::shared_ptr<netpolicy::Interceptor> interceptor) override {
    interceptors[slot] = std::move(interceptor);
  }
  netpolicy::SharedPolicy PolicyOf(uint32_t slot) const override {
    const auto found = claimed.find(slot);
    return found == claimed.end() ? nullptr : found->second.policy;
  }
  std::vector<netpolicy::LearnedName> LearnedBy(uint32_t) const override { return {}; }
  std::vector<netpolicy::Denial> DenialsOf(uint32_t) const override { return denials; }
  int link_error = 0;  // errno of CountersOf
  Result<netpolicy::SlotCounters> CountersOf(uint32_t) override {
    if (link_error == 0) return netpolicy::SlotCounters{};
    errno = link_error;
    return FailSys("RTM_GETLINK index 1");
  }
  void OnDenied(netpolicy::OnDenial) override {}
  Status RemoveLinks(const std::vector<uint32_t>& slots) override {
    for (const uint32_t slot : slots) lingering.erase(slot);
    links_removed += slots.size();
    return {};
  }
  Status Recover(const std::vector<netpolicy::LiveSlot>& live) override {
    recovered.clear();
    for (const netpolicy::LiveSlot& one : live) {
      recovered.push_back(one.slot);
      claimed[one.slot] = one.request;
    }
    return {};
  }
  int rules_socket() const override { return STDIN_FILENO; }
  Status RemoveAll() override {
    removed_all = true;
    return {};
  }

  netpolicy::DnsCounts counts;
  std::set<uint32_t> attached;
  std::vector<uint32_t> detached;
  std::set<uint32_t> lingering;
  size_t links_removed = 0;
  std::vector<uint32_t> recovered;
  std::map<uint32_t, netpolicy::SlotRequest> claimed;
  netpolicy::CeilingOf ceilings;
  std::map<uint32_t, std::shared_ptr<netpolicy::Interceptor>> interceptors;
  std::optional<Error> attach_error;
  std::optional<Error> claim_error;
  std::optional<Error> request_error;
  std::vector<netpolicy::Denial> denials;
  bool removed_all = false;
};

// Holds the image "busybox:latest" with layers 2 and 1.
class FakePuller final : public images::Puller {
 public:
  FakePuller();
  ~FakePuller() override;
  bool MayPull(const std::string& name) const override { return name == pullable; }
  Status CheckRoom(const images::Caller&) const override {
    return full ? Fail(Code::kUnavailable, "many images are being pulled") : Status();
  }
  Progress Pull(const images::Caller& caller, const std::string& name,
                images::Credentials credentials, std::function<void(const Status&)> done) override {
    pulls.push_back({caller.tenant, name, credentials.username, std::move(done)});
    return [] { return "1 MiB of 9 MiB have arrived"; };
  }

  struct Pulled {
    std::string tenant, name, username;
    std::function<void(const Status&)> done;
  };
  std::string pullable;
  bool full = false;
  std::vector<Pulled> pulls;
};

class FakeImages final : public images::ImageStore {
 public:
  FakeImages();
  ~FakeImages() override;
  void Import(const images::Caller&, UniqueFd, std::string, ImportDone) override {}
  Result<images::Image> Find(const images::Caller& caller, std::string_view name) const override {
    for (const std::string& tenant : {caller.tenant, std::string()}) {
      const auto found = owned.find(images::ImageKey(tenant, std::string(name)));
      if (found != owned.end()) return found->second;
    }
    if (name == "busybox" || name == "busybox:latest") return image;
    if (!imported.empty() && name == imported) return image;
    if (others.contains(name)) {
      images::Image other = image;
      other.name = name;
      return other;
    }
    return Fail(Code::kNotFound, "no image " + std::string(name));
  }
  std::vector<images::Image> List(const images::Caller& caller) const override {
    std::vector<images::Image> all = {image};
    for (const auto& [key, other] : owned) {
      if (other.tenant.empty() || caller.Sees(other.tenant)) all.push_back(other);
    }
    return all;
  }
  std::set<std::string> LayerDigests(const images::Caller&) const override { return {}; }
  Status Remove(const images::Caller&, std::string_view, InUse) override { return {}; }
  void CollectLayers(InUse in_use) override {
    if (on_collect) on_collect();
    ++collected;
    layer_1_in_use = in_use(1);
  }
  std::vector<images::Layer> LayersOf(const images::Image& of) const override {
    std::vector<images::Layer> layers;
    for (const wire::LayerId id : of.layers) layers.push_back({id, "", "", 10 * id, false, ""});
    return layers;
  }
  Result<images::Image> Tag(const images::Caller&, std::string_view, std::string_view) override {
    return image;
  }
  Result<images::Image> Commit(const images::Caller&, std::string_view, std::vector<wire::LayerId>,
                               std::string_view) override {
    return image;
  }
  void Prune(Dispensable, InUse, PruneDone done) override { done(Pruned{}); }
  void Verify(const images::Caller&, std::string_view, VerifyDone done) override {
    done(std::vector<VerifiedLayer>());
  }
  void ImportLayers(const images::Caller&, UniqueFd, Accept accept, ImportDone done) override {
    imports.push_back({std::move(accept), std::move(done)});
  }
  void Export(const images::Image&, images::ArchiveForm, ExportDone done) override {
    done(Fail(Code::kNotFound, "no image"));
  }
  Result<wire::LayerId> ReserveLayer() override { return ++last_layer; }
  Status KeepLayer(const images::Layer& layer) override {
    if (keep_error) return Fail(*keep_error);
    kept.insert(layer.id);
    written_bytes += layer.size_bytes;
    return {};
  }
  void DropLayer(wire::LayerId layer) override { dropped.push_back(layer); }
  bool HasLayer(wire::LayerId layer) const override { return kept.contains(layer); }
  bool IsWritten(wire::LayerId layer) const override { return layer > 100; }
  uint64_t WrittenBytes() const override { return written_bytes; }
  uint64_t ImportedBytes() const override { return 0; }
  Result<UniqueFd> TemporaryFile() override { return UniqueFd(); }

  struct LayersImport {
    Accept accept;
    ImportDone done;
  };
  std::vector<LayersImport> imports;
  images::Image image;
  std::set<std::string, std::less<>> others;   // further images with the same layers
  std::string imported;                        // second name of the image; empty: none
  std::map<std::string, images::Image> owned;  // more images, by ImageKey
  int collected = 0;
  std::function<void()> on_collect;
  bool layer_1_in_use = false;
  wire::LayerId last_layer = 100;
  std::set<wire::LayerId> kept = {1, 2};
  uint64_t written_bytes = 0;
  std::vector<wire::LayerId> dropped;
  std::optional<Error> keep_error;
};

}  // namespace atl::sandbox
