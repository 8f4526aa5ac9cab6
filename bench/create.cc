// Measures a cold create as its client sees it, beside the floor and other programs, and a delete.
#include <algorithm>

#include "bench/clock.h"
#include "bench/floor.h"
#include "bench/host_view.h"
#include "bench/lab.h"
#include "bench/peers.h"

namespace atl::bench {
namespace {

constexpr int kCount = 200;
constexpr int kWarmUp = 5;
constexpr int64_t kGonePatienceUs = 10'000'000;

constexpr int kParked = 8;

struct CreateLab : Lab {
  std::unique_ptr<Floor> floor;
  std::unique_ptr<Peers> peers;
  int claims = 0;  // claims since the pool was last refilled
};
using LabPtr = std::shared_ptr<CreateLab>;

// The source of a sandbox: built from `image`; or, without one, claimed from the pool. `claims` of
// them follow each other. Before the first, `parked` members are ready.
struct Source {
  const char* image = nullptr;
  int claims = 1;
  int parked = kParked;
  const char* limits = "{}";  // limits of a claim, as JSON
};

struct ColdMicros {
  int64_t created, known, first, deleted;  // the duration of the delete alone
};

Result<ColdMicros> LiveCold(SandboxApi& api, const Source& source) {
  ColdMicros micros{};
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(Sandbox sandbox, source.image == nullptr ? api.Claim(kPoolName, source.limits)
                                                        : api.Create(source.image));
  micros.created = MicrosSince(start);
  ATOLL_TRY(api.FindExecd(&sandbox));
  micros.known = MicrosSince(start);
  ATOLL_ASSIGN(const CommandMicros command, api.Echo(sandbox));
  micros.first = micros.known + command.first;
  const int64_t end = NowMicros();
  ATOLL_TRY(api.Delete(sandbox));
  micros.deleted = MicrosSince(end);
  return micros;
}

// Refills the pool, because a claim that finds no ready member is a cold create, which another
// phase measures. Call it after the samples, because the question wakes the daemon.
Status Refill(CreateLab& lab, const Source& source) {
  lab.claims = 0;
  ATOLL_TRY(lab.api->AwaitParked(kPoolName, source.parked));
  if (source.claims == 1) return {};
  // Waits until the pool has replaced its members. Then claims one sandbox that does not count,
  // because the first claim would follow a rest and the others would not.
  ATOLL_TRY(lab.api->AwaitQuiet());
  ++lab.claims;
  ATOLL_TRY(LiveCold(*lab.api, source));
  return {};
}

Status Cold(CreateLab& lab, const Source& source, const std::string& name, Take& take) {
  const auto life = LiveCold(*lab.api, source);
  if (life) {
    take.AddMs(name + ": delete answered", life->deleted);
    take.AddMs(name + ": create answered", life->created);
    take.AddMs(name + ": endpoint known", life->known);
    take.AddMs(name + ": first output", life->first);
  }
  const bool refill = source.image == nullptr && (!life || ++lab.claims >= source.claims);
  if (refill) ATOLL_TRY(Refill(lab, source));
  if (!life) return Fail(life.error());
  return {};
}

// Phases without rests run alone. Phases with rests take turns.
Phase ColdPhase(const LabPtr& lab, const Source& source, const std::string& name, bool flat,
                std::vector<Bound> bounds) {
  return {
      .series = {{name + ": create answered",
                  "first byte of `POST /v1/sandboxes` → its answer",
                  "ms",
                  {}},
                 {name + ": endpoint known", "… → answer of `GET …/endpoints/44772`", "ms", {}},
                 {name + ": first output",
                  source.image == nullptr ? "… → bytes of the first `echo hi`: claimed from a pool"
                                          : "… → bytes of the first `echo hi`: the cold create",
                  "ms", std::move(bounds)},
                 {name + ": delete answered", "first byte of `DELETE` → its answer", "ms", {}}},
      .samples = kCount,
      .warm_up = kWarmUp,
      .rest_ms = flat ? 0 : kRestMs,
      .turns = flat ? "" : "cold",
      .run = [=](Take& take) { return Cold(*lab, source, name, take); },
  };
}

Phase FloorPhase(const LabPtr& lab, bool flat) {
  const std::string name = flat ? "floor, flat" : "floor";
  return {
      .series = {{name, "the same isolation by bare system calls → bytes of `echo hi`", "ms", {}},
                 {name + ", slot made before",
                  "the same, with network, cgroups and user namespace made before",
                  "ms",
                  {}}},
      .samples = kCount,
      .warm_up = kWarmUp,
      .rest_ms = flat ? 0 : kRestMs,
      .turns = flat ? "" : "cold",
      .host = true,
      .run = [=](Take& take) -> Status {
        ATOLL_ASSIGN(const FloorMicros life, lab->floor->Live());
        take.AddMs(name, life.slot + life.first);
        take.AddMs(name + ", slot made before", life.first);
        return {};
      },
  };
}

Phase PeerPhase(const LabPtr& lab, const std::string& peer, bool flat) {
  const std::string name = flat ? peer + ", flat" : peer;
  return {
      .series = {{name, "spawn of the program → bytes of `echo hi`", "ms", {}}},
      // A sample of podman or docker takes some tenths of a second.
      .samples = peer == "podman" || peer == "docker" ? kCount / 10 : kCount,
      .rest_ms = flat ? 0 : kRestMs,
      .turns = flat ? "" : "cold",
      .host = true,
      .run = [=](Take& take) -> Status {
        const std::string& missing = lab->peers->missing(peer);
        if (!missing.empty()) {
          take.Absent(name, missing);
          return {};
        }
        ATOLL_ASSIGN(const RunMicros micros, lab->peers->Run(peer));
        take.AddMs(name, micros.first);
        return {};
      },
  };
}

Status Delete(Lab& lab, Take& take) {
  ATOLL_ASSIGN(const Sandbox sandbox, lab.Create(kBusyboxImage));
  ATOLL_ASSIGN(const std::vector<Place> places,
               FindSandboxes(lab.daemon->spawner(), lab.daemon->data_dir()));
  const auto present = [](const Place& place) { return !IsGone(place); };
  // If an earlier delete has left one of these places half removed, its disappearance would prove
  // nothing.
  if (places.empty() || !std::all_of(places.begin(), places.end(), present)) {
    return Fail(Code::kInternal, "sandbox " + sandbox.id + " is not to be seen on the host");
  }
  Rest(kRestMs);
  const int64_t start = NowMicros();
  ATOLL_TRY(lab.api->Delete(sandbox));
  take.AddMs("delete answered", MicrosSince(start));
  // Each check is some ten system calls. A millisecond between them keeps the machine idle.
  while (!std::all_of(places.begin(), places.end(), IsGone)) {
    if (MicrosSince(start) > kGonePatienceUs) {
      return Fail(Code::kDeadlineExceeded, "sandbox " + sandbox.id + " was deleted, but " +
                                               places.front().cgroup_dir + ", " +
                                               places.front().link + " or its files remain");
    }
    Rest(1);
  }
  take.AddMs("everything gone", MicrosSince(start));
  return {};
}

}  // namespace

Phases CreatePhases(const Setting& setting) {
  const auto lab = std::make_shared<CreateLab>();
  Phases phases = {
      {.run = [=](Take&) -> Status {
        ATOLL_TRY(lab->Open(setting));
        return lab->api->ImportImage(kDebianImage, setting.debian);
      }},
      {.host = true,
       .run = [=](Take&) -> Status {
         ATOLL_ASSIGN(lab->floor, Floor::Open(lab->daemon->top() + "/floor"));
         if (!setting.peers) return {};
         ATOLL_ASSIGN(lab->peers, Peers::Open(lab->daemon->top() + "/peers"));
         return {};
       }},
      Quiet(lab),
  };
  const auto add = [&](bool flat) {
    const std::string how = flat ? ", flat" : "";
    const Bound no_slower{.at_most = 1, .over = "create/crun", .must = true};
    const Bound quarter{.at_most = 0.25, .over = "create/crun"};
    const Bound floor{.at_most = 1.5, .over = "create/floor"};
    std::vector<Bound> one, twelve;
    if (!flat) one = {{.at_most = 3}, floor, quarter, no_slower};
    if (!flat) twelve = {{.at_most = 3}, quarter, no_slower};
    phases.push_back(ColdPhase(lab, {kBusyboxImage}, "busybox" + how, flat, one));
    if (flat) phases.push_back(Quiet(lab));
    phases.push_back(ColdPhase(lab, {kDebianImage}, "12 layers" + how, flat, twelve));
    if (flat) phases.push_back(Quiet(lab));
    phases.push_back(FloorPhase(lab, flat));
    for (const std::string& peer : kPeers) {
      if (setting.peers) phases.push_back(PeerPhase(lab, peer, flat));
    }
  };
  add(false);
  phases.push_back(Quiet(lab));
  add(true);
  phases.push_back({.series = {{"delete answered",
                                "`DELETE` of a sandbox that has run a command → its answer",
                                "ms",
                                {{.at_most = 1}}},
                               {"everything gone",
                                "… → no process, cgroup, link and files of it; looked at each ms",
                                "ms",
                                {{.at_most = 200}}}},
                    .samples = kCount / 2,
                    .run = [=](Take& take) { return Delete(*lab, take); }});
  // Comes last: the parked sandboxes would slow down all other phases, and an older release has no
  // pools.
  phases.push_back({.host = true, .run = [=](Take&) {
                      return lab->api->MakePool(kPoolName, kBusyboxImage, kParked);
                    }});
  const auto claim = [&](const Source& source, const std::string& name, bool flat,
                         std::vector<Bound> bounds) {
    phases.push_back(Quiet(lab));
    phases.push_back(ColdPhase(lab, source, name, flat, std::move(bounds)));
  };
  claim({}, "pool", false, {{.at_most = 1.2, .over = "create/floor, slot made before"}});
  claim({.claims = kParked}, "pool, flat", true,
        {{.at_most = 1}, {.at_most = 1.2, .over = "create/floor, flat, slot made before"}});
  // Other limits than the members have: the Python SDK's, and such that change all that can be.
  claim({.limits = R"({"cpu":"1","memory":"2Gi"})"}, "pool, limits", false, {});
  claim({.limits = R"({"cpu":"2","memory":"2Gi","pids":"600","shm":"1Mi","nofile":"900"})"},
        "pool, all limits", false, {});
  // Claims follow each other so fast that the pool is empty, and its builds set the pace.
  claim({.parked = 1}, "pool, drained", true, {{.at_most = 1}});
  return phases;
}

}  // namespace atl::bench
