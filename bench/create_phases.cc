#include "bench/create_phases.h"

#include <algorithm>
#include <string_view>

#include "bench/host_view.h"
#include "bench/process.h"

namespace atl::bench {
namespace {

constexpr int kWarmUp = 5;
constexpr int64_t kGonePatienceUs = 10'000'000;
const std::vector<std::string> kImages = {kBusyboxImage, kDebianImage};

Status ColdOnce(SandboxApi& api, const std::string& image, Cold* cold) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(Sandbox sandbox, api.Create(image));
  const int64_t created = NowMicros();
  ATOLL_TRY(api.FindExecd(&sandbox));
  const int64_t execd = NowMicros();
  CommandTimes command;
  ATOLL_TRY(api.Echo(sandbox, &command));
  const int64_t end = NowMicros();
  ATOLL_TRY(api.Delete(sandbox));
  if (cold) {
    cold->deleted.AddSince(end);
    cold->created.AddMicros(created - start);
    cold->execd.AddMicros(execd - start);
    cold->first.AddMicros(execd - start + static_cast<int64_t>(command.first.p50() * 1000));
  }
  return {};
}

constexpr std::string_view kBuildStep = R"(atoll_build_step_microseconds_sum{step=")";
constexpr std::string_view kSlotStep = R"(atoll_slot_step_microseconds_sum{step=")";

std::string StepIn(const std::string& metric, std::string_view prefix) {
  return metric.substr(prefix.size(), metric.find('"', prefix.size()) - prefix.size());
}

// Adds what the metrics rose by from `before` to `after`.
void AddSteps(const std::map<std::string, double>& before,
              const std::map<std::string, double>& after, Cold* cold) {
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    const double rise = value - (old == before.end() ? 0 : old->second);
    if (name == "atoll_build_microseconds_sum") cold->build_micros += rise;
    // A slot is made in the background, at most one more or less than creates.
    for (const std::string_view prefix : {kBuildStep, kSlotStep}) {
      if (name.starts_with(prefix)) cold->step_micros[StepIn(name, prefix)] += rise;
    }
  }
}

void Divide(Cold* cold) {
  const auto count = static_cast<double>(std::max<size_t>(1, cold->first.size()));
  for (auto& [name, sum] : cold->step_micros) sum /= count;
  cold->build_micros /= count;
}

Status PeerOnce(Peers& peers, size_t peer, Samples* samples) {
  ATOLL_ASSIGN(const RunMicros micros, peers.Run(peer));
  samples->AddMicros(micros.first);
  return {};
}

Status ColdRested(SandboxApi& api, Peers& peers, int count, ColdResults* results) {
  for (int i = 0; i < count; ++i) {
    for (const std::string& image : kImages) {
      Cold& cold = results->rested[image];
      ATOLL_ASSIGN(const auto before, api.Metrics());
      Rest(kRestMs);
      ATOLL_TRY(ColdOnce(api, image, &cold));
      ATOLL_ASSIGN(const auto after, api.Metrics());
      AddSteps(before, after, &cold);
    }
    for (size_t peer = 0; peer < results->peers.size(); ++peer) {
      if (!results->peers[peer].missing.empty()) continue;
      Rest(kRestMs);
      ATOLL_TRY(PeerOnce(peers, peer, &results->peers[peer].rested));
    }
  }
  return {};
}

Status ColdFlat(SandboxApi& api, Peers& peers, int count, ColdResults* results) {
  for (const std::string& image : kImages) {
    ATOLL_TRY(api.AwaitQuiet());
    for (int i = 0; i < count; ++i) ATOLL_TRY(ColdOnce(api, image, &results->flat[image]));
  }
  ATOLL_TRY(api.AwaitQuiet());
  for (size_t peer = 0; peer < results->peers.size(); ++peer) {
    if (!results->peers[peer].missing.empty()) continue;
    for (int i = 0; i < count; ++i) ATOLL_TRY(PeerOnce(peers, peer, &results->peers[peer].flat));
  }
  return {};
}

Status EchoRested(SandboxApi& api, const Sandbox& sandbox, CommandTimes* times) {
  Rest(kRestMs);
  return api.Echo(sandbox, times);
}

// The same command without a sandbox: what no exec daemon can be faster than.
Status OnHost(const std::vector<std::string>& argv, Samples* samples) {
  ATOLL_ASSIGN(const RunMicros micros, RunTimed(argv, -1));
  samples->AddMicros(micros.exit);
  return {};
}
const std::vector<std::string> kHostSh = {"busybox", "sh", "-c", "echo hi"};
const std::vector<std::string> kHostBash = {"bash", "-c", "echo hi"};

}  // namespace

Result<ColdResults> MeasureCold(SandboxApi& api, Peers& peers, int count) {
  ColdResults results;
  for (const Peers::Peer& peer : peers.all()) {
    results.peers.push_back({peer.name, peer.missing, {}, {}});
  }
  for (const std::string& image : kImages) {
    for (int i = 0; i < kWarmUp; ++i) ATOLL_TRY(ColdOnce(api, image, nullptr));
  }
  ATOLL_TRY(api.AwaitQuiet());
  ATOLL_TRY(ColdRested(api, peers, count, &results));
  for (auto& [image, cold] : results.rested) Divide(&cold);
  ATOLL_TRY(ColdFlat(api, peers, count, &results));
  return results;
}

Result<ExecResults> MeasureExec(SandboxApi& api, int count) {
  ATOLL_ASSIGN(Sandbox busybox, api.Create(kBusyboxImage));
  ATOLL_TRY(api.FindExecd(&busybox));
  ATOLL_ASSIGN(Sandbox debian, api.Create(kDebianImage));
  ATOLL_TRY(api.FindExecd(&debian));
  for (int i = 0; i < kWarmUp; ++i) {
    ATOLL_TRY(api.Echo(busybox, nullptr));
    ATOLL_TRY(api.Echo(debian, nullptr));
  }
  ATOLL_TRY(api.AwaitQuiet());
  ExecResults results;
  for (int i = 0; i < count; ++i) {
    ATOLL_TRY(EchoRested(api, busybox, &results.sh_rested));
    ATOLL_TRY(EchoRested(api, debian, &results.bash_rested));
    Rest(kRestMs);
    ATOLL_TRY(OnHost(kHostSh, &results.host_sh_rested));
    Rest(kRestMs);
    ATOLL_TRY(OnHost(kHostBash, &results.host_bash_rested));
  }
  for (int i = 0; i < count; ++i) ATOLL_TRY(api.Echo(busybox, &results.sh_flat));
  for (int i = 0; i < count; ++i) ATOLL_TRY(api.Echo(debian, &results.bash_flat));
  for (int i = 0; i < count; ++i) ATOLL_TRY(OnHost(kHostSh, &results.host_sh_flat));
  for (int i = 0; i < count; ++i) ATOLL_TRY(OnHost(kHostBash, &results.host_bash_flat));
  ATOLL_TRY(api.Delete(busybox));
  ATOLL_TRY(api.Delete(debian));
  return results;
}

Result<DeleteResults> MeasureDelete(const OwnDaemon& daemon, SandboxApi& api, int count) {
  DeleteResults results;
  for (int i = 0; i < count; ++i) {
    ATOLL_ASSIGN(Sandbox sandbox, api.Create(kBusyboxImage));
    ATOLL_TRY(api.FindExecd(&sandbox));
    ATOLL_TRY(api.Echo(sandbox, nullptr));
    ATOLL_ASSIGN(const std::vector<Place> places,
                 FindSandboxes(daemon.spawner(), daemon.data_dir()));
    const auto present = [](const Place& place) { return !IsGone(place); };
    // One that a delete before this one has left would make "gone" mean nothing.
    if (places.empty() || !std::all_of(places.begin(), places.end(), present)) {
      return Fail(Code::kInternal, "sandbox " + sandbox.id + " is not to be seen on the host");
    }
    Rest(kRestMs);
    const int64_t start = NowMicros();
    ATOLL_TRY(api.Delete(sandbox));
    results.answered.AddSince(start);
    // Each look is some ten system calls; a millisecond between them leaves the machine alone.
    while (!std::all_of(places.begin(), places.end(), IsGone)) {
      if (NowMicros() - start > kGonePatienceUs) {
        return Fail(Code::kDeadlineExceeded, "sandbox " + sandbox.id + " was deleted, but " +
                                                 places.front().cgroup_dir + ", " +
                                                 places.front().link + " or its files remain");
      }
      Rest(1);
    }
    results.gone.AddSince(start);
  }
  return results;
}

Result<Idle> MeasureIdle(const OwnDaemon& daemon, SandboxApi& api, int sandboxes) {
  const auto own = [&](double* atolld, double* spawner) -> Status {
    ATOLL_ASSIGN(*atolld, PssKib(daemon.pid()));
    *spawner = 0;
    for (const pid_t pid : daemon.spawner()) {
      ATOLL_ASSIGN(const double pss, PssKib(pid));
      *spawner += pss;
    }
    return {};
  };
  ATOLL_TRY(api.AwaitQuiet());
  // What earlier deletes left to the kernel (namespaces, RCU) is freed within a second or so.
  Rest(1500);
  double atolld = 0, spawner = 0;
  ATOLL_TRY(own(&atolld, &spawner));
  ATOLL_ASSIGN(const Memory before, ReadMemory());
  std::vector<Sandbox> made;
  for (int i = 0; i < sandboxes; ++i) {
    ATOLL_ASSIGN(made.emplace_back(), api.Create(kBusyboxImage));
  }
  ATOLL_TRY(api.AwaitQuiet());
  Rest(1500);
  ATOLL_ASSIGN(const Memory after, ReadMemory());
  Idle idle;
  idle.sandboxes = sandboxes;
  ATOLL_TRY(own(&idle.atolld, &idle.spawner));
  idle.atolld -= atolld;
  idle.spawner -= spawner;
  ATOLL_ASSIGN(const std::vector<Place> places, FindSandboxes(daemon.spawner(), daemon.data_dir()));
  for (const Place& place : places) {
    ATOLL_ASSIGN(const double pss, PssKib(place.pid));
    idle.execd += pss;
  }
  if (places.size() != made.size()) {
    return Fail(Code::kInternal, std::to_string(places.size()) + " sandboxes of " +
                                     std::to_string(made.size()) + " are to be seen on the host");
  }
  idle.kernel = after.kernel_kib - before.kernel_kib;
  idle.available = before.available_kib - after.available_kib;
  for (double* sum : {&idle.atolld, &idle.spawner, &idle.execd, &idle.kernel, &idle.available}) {
    *sum /= sandboxes;
  }
  for (const Sandbox& sandbox : made) ATOLL_TRY(api.Delete(sandbox));
  return idle;
}

}  // namespace atl::bench
