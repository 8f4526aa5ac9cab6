// Stand-ins for the parts around runtime/sandbox: a loop that moves only when told, a clock, a
// spawner, a network and an image store that do what the test says and write down what they were
// asked.
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
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

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

// Timers fire when the clock is advanced past them with Pass; descriptors are looked at by Run.
class FakeLoop final : public Loop {
 public:
  explicit FakeLoop(FakeClock& clock) : clock_(clock) {}

  Id WatchReadable(int fd, Callback callback) override {
    watches_[++last_id_] = {fd, std::move(callback)};
    return last_id_;
  }
  void Unwatch(Id id) override { watches_.erase(id); }
  Id After(int64_t delay_us, Callback callback) override {
    timers_[++last_id_] = {clock_.boot_us + delay_us, std::move(callback)};
    return last_id_;
  }
  void Cancel(Id id) override { timers_.erase(id); }
  void Post(Callback callback) override { posted_.push_back(std::move(callback)); }
  void RunBlocking(Callback work, Callback done) override {
    work();
    Post(std::move(done));
  }

  // Everything that can run now; the clock stands still.
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
  // Moves the clock, timer by timer.
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
  // Calls the watchers of descriptors that are readable now, once.
  void Poll();
  size_t watching() const { return watches_.size(); }
  size_t timers() const { return timers_.size(); }

 private:
  struct Watch {
    int fd;
    Callback callback;
  };
  struct Timer {
    int64_t at;
    Callback callback;
  };
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
  std::map<Id, Watch> watches_;
  std::map<Id, Timer> timers_;
  std::deque<Callback> posted_;
};

// Prepares and drops slots by itself, from the loop as the real one does; the test takes the other
// calls and answers them.
class FakeSpawner final : public launch::SpawnerClient {
 public:
  explicit FakeSpawner(FakeLoop& its_loop) : loop(its_loop) {}

  struct PendingBuild {
    wire::Plan plan;
    UniqueFd control;  // execd's end
    Done<launch::Built> done;
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
  void Hello(Done<wire::Reply> done) override { hellos.push_back(std::move(done)); }
  void PrepareSlot(uint32_t slot, const cgroup::Limits&, int control, int,
                   Done<launch::PreparedSlot> done) override {
    controls[slot].reset(::fcntl(control, F_DUPFD_CLOEXEC, 3));
    prepares.push_back({slot, std::move(done)});
    if (answer_prepares) loop.Post([this] { AnswerPrepare(); });
  }
  void DropSlot(uint32_t slot, Finished done) override {
    dropped.push_back(slot);
    loop.Post([done = std::move(done)] { done({}); });
  }
  void Build(const wire::Plan& plan, Done<launch::Built> done) override {
    builds.push_back({plan, std::move(controls[plan.slot]), std::move(done)});
  }
  void Freeze(const std::string& id, bool frozen, Finished done) override {
    freezes.push_back({(frozen ? "freeze " : "thaw ") + id, std::move(done)});
  }
  void Destroy(const std::string& id, Finished done) override {
    destroys.push_back({id, std::move(done)});
  }
  void SplitArchive(int, int, Done<std::string>) override {}
  void ExtractLayer(int, wire::LayerId, Done<std::string>) override {}
  void PublishLayer(wire::LayerId, Finished) override {}
  void RemoveLayer(wire::LayerId, Finished) override {}
  void ListLayers(Done<std::vector<wire::LayerId>>) override {}
  void MakeVolume(const std::string& name, uint64_t disk_bytes, Finished done) override {
    const std::string limit = disk_bytes == 0 ? "" : " of " + std::to_string(disk_bytes);
    volume_calls.push_back({"make " + name + limit, std::move(done)});
  }
  void RemoveVolume(const std::string& name, Finished done) override {
    volume_calls.push_back({"remove " + name, std::move(done)});
  }
  void VolumeUse(const std::string&, Done<wire::VolumeUse> done) override {
    done(wire::VolumeUse{.bytes = 4096, .entries = 1});
  }
  void CheckVolume(const wire::Volume& volume, Finished done) override {
    volume_calls.push_back({"check " + volume.source, std::move(done)});
  }
  void KeepRules(int nfnetlink, Finished done) override {
    rules_kept = nfnetlink;
    done({});
  }
  void Stop(Finished done) override {
    stopped = true;
    done({});
  }

  // What was asked.
  int rules_kept = -1;
  std::string AnswerVolume(Status status = {}) {
    auto [what, done] = std::move(volume_calls.front());
    volume_calls.pop_front();
    done(std::move(status));
    return what;
  }

  void AnswerPrepare() {
    if (prepares.empty()) return;
    auto [slot, done] = std::move(prepares.front());
    prepares.pop_front();
    if (prepare_error) return done(Fail(*prepare_error));
    done(launch::PreparedSlot{UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 3)), {}});
  }
  PendingBuild AnswerBuild(Result<launch::Built> built = launch::Built{42, {}}) {
    PendingBuild build = std::move(builds.front());
    builds.pop_front();
    build.done(std::move(built));
    return build;
  }
  // "freeze ID" or "thaw ID".
  std::string AnswerFreeze(Status status = {}) {
    auto [what, done] = std::move(freezes.front());
    freezes.pop_front();
    done(std::move(status));
    return what;
  }
  std::string AnswerDestroy(Status status = {}) {
    auto [id, done] = std::move(destroys.front());
    destroys.pop_front();
    done(std::move(status));
    return id;
  }

  void AnswerHello(Result<wire::Reply> hello) {
    const auto done = std::move(hellos.front());
    hellos.pop_front();
    done(std::move(hello));
  }

  bool answer_prepares = true;
  std::deque<Done<wire::Reply>> hellos;
  std::optional<Error> prepare_error;
  std::deque<std::pair<uint32_t, Done<launch::PreparedSlot>>> prepares;
  std::map<uint32_t, UniqueFd> controls;  // execd's ends of prepared slots
  std::deque<PendingBuild> builds;
  std::deque<Pending<std::string>> destroys;
  std::deque<Pending<std::string>> volume_calls;
  std::deque<Pending<std::string>> freezes;
  std::vector<uint32_t> dropped;
  bool stopped = false;
  std::function<void(const wire::SandboxRecord&)> exit;
  std::function<void()> lost;
  FakeLoop& loop;
};

class FakeNetwork final : public netpolicy::Network {
 public:
  Status Start(Loop&, Health&) override { return {}; }
  uint64_t repairs() const override { return 0; }
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
  Result<std::shared_ptr<const netpolicy::Egress>> MakeReady(
      netpolicy::SharedPolicy policy) const override {
    if (request_error) return Fail(*request_error);
    return netpolicy::Egress::Make(std::move(policy), {}, {});
  }
  Status SetPolicy(uint32_t slot, std::shared_ptr<const netpolicy::Egress> egress) override {
    if (claim_error) return Fail(*claim_error);
    claimed[slot].policy = egress->policy();
    return {};
  }
  netpolicy::SharedPolicy PolicyOf(uint32_t slot) const override {
    const auto found = claimed.find(slot);
    return found == claimed.end() ? nullptr : found->second.policy;
  }
  std::vector<netpolicy::LearnedName> LearnedBy(uint32_t) const override { return {}; }
  std::vector<netpolicy::Denial> DenialsOf(uint32_t) const override { return {}; }
  Result<netpolicy::SlotCounters> CountersOf(uint32_t) override {
    return netpolicy::SlotCounters{};
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
  int rules_socket() const override { return 77; }
  Status RemoveAll() override {
    removed_all = true;
    return {};
  }

  std::set<uint32_t> attached;
  std::vector<uint32_t> detached;
  std::set<uint32_t> lingering;
  size_t links_removed = 0;
  std::vector<uint32_t> recovered;
  std::map<uint32_t, netpolicy::SlotRequest> claimed;
  std::optional<Error> attach_error;
  std::optional<Error> claim_error;
  std::optional<Error> request_error;
  bool removed_all = false;
};

// Holds the image "busybox:latest" with layers 2 and 1.
class FakeImages final : public images::ImageStore {
 public:
  FakeImages() {
    image.name = "busybox:latest";
    image.digest = "sha256:00";
    image.config.env = {"PATH=/bin", "LANG=C"};
    image.config.working_dir = "/srv";
    image.config.user = "1000";
    image.config.architecture = "amd64";
    image.layers = {2, 1};
  }
  void Import(UniqueFd, std::string, ImportDone) override {}
  Result<images::Image> Find(std::string_view name) const override {
    if (name == "busybox" || name == "busybox:latest") return image;
    if (!imported.empty() && name == imported) return image;
    return Fail(Code::kNotFound, "no image " + std::string(name));
  }
  std::vector<images::Image> List() const override { return {image}; }
  Status Remove(std::string_view, InUse) override { return {}; }
  void CollectLayers(InUse in_use) override {
    ++collected;
    layer_1_in_use = in_use(1);
  }
  Result<UniqueFd> TemporaryFile() override { return UniqueFd(); }

  images::Image image;
  std::string imported;  // another name of it, once there is one
  int collected = 0;
  bool layer_1_in_use = false;
};

}  // namespace atl::sandbox
