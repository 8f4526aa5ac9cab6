#include "runtime/sandbox/metrics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>

namespace atl::sandbox {
namespace {

// Label values, in the order of the enumerations Origin and End.
constexpr std::string_view kStartNames[kOrigins] = {"cold", "pool", "template", "snapshot", "fork"};
constexpr std::string_view kEndNames[kEnds] = {"exit",    "error",   "stopped", "oom", "failed",
                                               "deleted", "expired", "idle",    "lost"};

std::string Text(std::string_view text) {
  return std::string(text);
}

void AddGpus(const Gpus& gpus, MetricSet* metrics) {
  if (gpus.count() == 0) return;
  metrics->Gauge("atoll_gpus", "GPUs that this host offers to sandboxes.").Add(gpus.count());
  metrics->Gauge("atoll_gpus_free", "Those that no sandbox has.").Add(gpus.Free());
}

void AddCreates(const CreateStats& stats, MetricSet* metrics) {
  MetricFamily& creates = metrics->Counter(
      "atoll_sandbox_creates_total",
      "Sandboxes that were asked for. result: ok, error (a fault of ours or of the host's), "
      "refused (for what the request says, or no room now). start: cold, or what it was made from.",
      {"result", "start"});
  for (size_t i = 0; i < stats.origins.size(); ++i) {
    const std::string start = Text(kStartNames[i]);
    creates.Add(stats.origins[i].ok, {"ok", start});
    creates.Add(stats.origins[i].error, {"error", start});
    creates.Add(stats.origins[i].refused, {"refused", start});
  }
  MetricFamily& seconds = metrics->Histogram(
      "atoll_sandbox_create_duration_seconds",
      "Time from the request for a sandbox to the answer that it runs.", kSecondsBounds, {"start"});
  for (size_t i = 0; i < stats.origins.size(); ++i) {
    seconds.Add(stats.origins[i].seconds, {Text(kStartNames[i])});
  }
}

void AddSteps(const CreateStats& stats, const SlotPool& slots, MetricSet* metrics) {
  MetricFamily& steps = metrics->Histogram(
      "atoll_step_duration_seconds",
      "Time that the spawner took for each step of a slot (made ahead) and of a build.",
      kStepBounds, {"phase", "step"});
  for (size_t i = 0; i < stats.step_seconds.size(); ++i) {
    const auto step = static_cast<wire::Step>(i);
    const bool build = step >= wire::kFirstBuildStep;
    steps.Add(build ? stats.step_seconds[i] : slots.step_seconds()[i],
              {build ? "build" : "slot", Text(wire::StepName(step))});
  }
}

void AddHistory(const Departures::Stats& stats, MetricSet* metrics) {
  metrics->Gauge("atoll_history_entries", "Sandboxes that are gone and can be read.")
      .Add(stats.entries);
  metrics->Gauge("atoll_history_bytes", "Size of their records and logs.").Add(stats.bytes);
  MetricFamily& dropped = metrics->Counter(
      "atoll_history_dropped_total",
      "Entries that the history has dropped, or could not take. reason: age, size, full_disk.",
      {"reason"});
  constexpr std::string_view kReasons[kDropReasons] = {"age", "size", "full_disk"};
  for (size_t i = 0; i < kDropReasons; ++i) dropped.Add(stats.dropped[i], {Text(kReasons[i])});
}

void AddSandboxes(const Sandboxes& all, MetricSet* metrics) {
  std::map<std::string_view, uint64_t> by_name;
  for (int i = 0; i < kStates; ++i) {
    const auto state = static_cast<State>(i);
    if (!IsLeaving(state)) by_name[StateName(state)];
  }
  uint64_t paused = 0, idle = 0, reclaimed = 0;
  for (const Sandbox* sandbox : all.registry.All(tenants::Caller::Daemon())) {
    ++by_name[StateName(sandbox->state)];
    if (sandbox->state != State::kPaused) continue;
    ++(Wakes(*sandbox) ? idle : paused);
    reclaimed += sandbox->reclaimed_bytes;
  }
  MetricFamily& sandboxes = metrics->Gauge("atoll_sandboxes", "Sandboxes, by state.", {"state"});
  for (const auto& [name, count] : by_name) sandboxes.Add(count, {Text(name)});
  metrics->Gauge("atoll_paused", "Paused sandboxes, by whoever paused them.", {"by"})
      .Add(paused, {"request"})
      .Add(idle, {"idle"});
  metrics->Gauge("atoll_reclaimed_bytes", "Memory of paused sandboxes that is in swap now.")
      .Add(reclaimed);
  metrics->Gauge("atoll_swap_area_bytes", "Size of the swap area for paused sandboxes; 0: none.")
      .Add(all.check.swap_bytes());
}

void AddLife(const Sandboxes& all, const SnapshotStats& snapshots, MetricSet* metrics) {
  const auto& reasons = all.endings.ends();
  const RollbackStats& rollbacks = all.rollbacks.stats();
  const PauseStats& stats = all.pauses.stats();
  MetricFamily& ends = metrics->Counter("atoll_sandbox_ends_total",
                                        "Sandboxes that have ended, by why.", {"reason"});
  for (size_t i = 0; i < reasons.size(); ++i) ends.Add(reasons[i], {Text(kEndNames[i])});
  const cgroup::GroupEvents events = all.counts.Sum();
  metrics
      ->Counter("atoll_sandbox_oom_kills_total",
                "Processes in sandboxes that the kernel killed for the sandbox's memory limit.")
      .Add(events.oom_kills);
  metrics
      ->Counter("atoll_sandbox_pids_limit_hits_total",
                "Processes that sandboxes could not start at their limit of processes.")
      .Add(events.pids_hits);
  if (all.meter.on()) {
    metrics
        ->Gauge("atoll_usage_checkpoint_age_seconds",
                "Time since the counters of all sandboxes were stored in the ledger of usage.")
        .Add(static_cast<uint64_t>(std::max<int64_t>(all.meter.CheckpointAge(), 0)));
  }
  metrics->Counter("atoll_rollbacks_total", "Rollbacks of sandboxes to a snapshot.", {"result"})
      .Add(rollbacks.ok, {"ok"})
      .Add(rollbacks.refused, {"refused"})
      .Add(rollbacks.failed, {"failed"});
  metrics->Counter("atoll_pauses_total", "Pauses, by whoever asked.", {"by"})
      .Add(stats.paused, {"request"})
      .Add(stats.idle_paused, {"idle"});
  metrics->Counter("atoll_wakes_total", "Idle sandboxes that a request resumed.").Add(stats.woken);
  metrics
      ->Histogram("atoll_resume_duration_seconds", "Time from a resume to the running sandbox.",
                  kSecondsBounds)
      .Add(stats.resume_seconds);
  metrics
      ->Counter("atoll_reclaims_total", "Paused sandboxes whose memory was to go to swap.",
                {"result"})
      .Add(stats.reclaimed, {"ok"})
      .Add(stats.kept, {"kept"});
  metrics->Counter("atoll_reclaimed_bytes_total", "Memory that went to swap in all pauses.")
      .Add(stats.reclaimed_bytes);
  metrics->Counter("atoll_snapshots_total", "Snapshots that were taken.", {"result"})
      .Add(snapshots.taken, {"ok"})
      .Add(snapshots.failed, {"failed"});
  metrics
      ->Counter("atoll_snapshot_held_seconds_total",
                "Time that sandboxes stood still for their snapshots.")
      .Add(static_cast<double>(snapshots.held_micros) / 1e6);
}

void AddAdmission(const CreateStats& stats, const Admission& admission, const SlotPool& slots,
                  MetricSet* metrics) {
  metrics->Gauge("atoll_admission_queue_length", "Creates that wait for their turn.")
      .Add(admission.waiting());
  metrics->Gauge("atoll_builds_active", "Sandboxes that are being built.").Add(admission.active());
  metrics
      ->Histogram("atoll_admission_wait_seconds", "Time that creates waited for their turn.",
                  kSecondsBounds)
      .Add(admission.wait_seconds());
  metrics
      ->Counter("atoll_admission_refused_total",
                "Creates that were refused for want of room. reason: queue (runtime.build_queue is "
                "full), host (memory, processes or max_sandboxes).",
                {"reason"})
      .Add(stats.refused_by_queue, {"queue"})
      .Add(stats.refused_by_host, {"host"});
  metrics->Gauge("atoll_slots", "Network slots in stock, by state.", {"state"})
      .Add(slots.ready(), {"ready"})
      .Add(slots.resting(), {"resting"});
  metrics->Counter("atoll_slots_prepared_total", "Slots that were made ahead.")
      .Add(slots.prepared_total());
  metrics->Counter("atoll_slot_misses_total", "Builds that found no slot in stock.")
      .Add(slots.misses_total());
}

// A pool or template may be a label, because the operator makes only a few of them.
void AddStock(const Sandboxes& all, MetricSet* metrics) {
  const PoolStats& pools = all.pools.stats();
  const auto& cold = pools.creates.cold;
  metrics->Counter("atoll_pool_built_total", "Sandboxes built ahead for pools.").Add(pools.built);
  metrics
      ->Counter("atoll_pool_creates_total", "Creates of a pool, by whether it had a sandbox.",
                {"result"})
      .Add(pools.creates.claimed, {"claimed"})
      .Add(std::accumulate(cold.begin(), cold.end(), uint64_t{0}), {"cold"});
  MetricFamily& reasons = metrics->Counter(
      "atoll_pool_cold_total", "Creates of a pool that were built, by the reason.", {"reason"});
  for (int i = 0; i < kColdReasons; ++i) {
    reasons.Add(cold[static_cast<size_t>(i)], {Text(ColdReasonName(static_cast<ColdReason>(i)))});
  }
  metrics->Counter("atoll_pool_disposed_total", "Sandboxes of pools that nobody claimed.")
      .Add(pools.disposed);
  metrics->Gauge("atoll_pool_automatic", "Pools that made themselves.").Add(all.pools.automatic());
  MetricFamily& members =
      metrics->Gauge("atoll_pool_sandboxes", "Sandboxes of each pool.", {"pool", "state"});
  for (const WarmPools::View& pool : all.pools.List(tenants::Caller::Daemon())) {
    members.Add(pool.available, {pool.record.key, "available"});
    members.Add(pool.allocated, {pool.record.key, "allocated"});
  }
  const TemplateStats& templates = all.templates.stats();
  metrics->Counter("atoll_template_built_total", "Sandboxes prepared for templates.")
      .Add(templates.built);
  metrics->Counter("atoll_template_failed_total", "Sandboxes that could not be prepared.")
      .Add(templates.failed);
  metrics
      ->Counter("atoll_template_creates_total", "Creates of a template, by whether one was ready.",
                {"result"})
      .Add(templates.claimed, {"claimed"})
      .Add(templates.waited, {"waited"});
  metrics->Counter("atoll_template_disposed_total", "Sandboxes of templates that nobody claimed.")
      .Add(templates.disposed);
  MetricFamily& ready =
      metrics->Gauge("atoll_template_sandboxes", "Sandboxes and waiting creates of each template.",
                     {"template", "state"});
  for (const TemplateRecord* record : all.templates.Records(tenants::Caller::Daemon())) {
    const Templates::View view = *all.templates.Find(tenants::Caller::Daemon(), record->id);
    ready.Add(view.ready, {record->id, "ready"});
    ready.Add(view.building, {record->id, "building"});
    ready.Add(view.waiting, {record->id, "waiting"});
  }
}

void AddDisk(const images::ImageStore& images, const HostSample* host, const QuotaSample* quotas,
             MetricSet* metrics) {
  MetricFamily& disk = metrics->Gauge(
      "atoll_disk_bytes",
      "What is kept in storage.data_dir, by kind. state includes logs of sandboxes that are gone. "
      "uppers (what sandboxes have written) and volumes need project quotas.",
      {"kind"});
  disk.Add(images.ImportedBytes(), {"images"}).Add(images.WrittenBytes(), {"snapshots"});
  if (quotas != nullptr) {
    disk.Add(quotas->upper_bytes, {"uppers"}).Add(quotas->volume_bytes, {"volumes"});
  }
  if (host == nullptr) return;
  disk.Add(host->log_bytes, {"logs"}).Add(host->state_bytes, {"state"});
  metrics->Gauge("atoll_store_size_bytes", "Size of the file system of the store.")
      .Add(host->store_size_bytes);
  metrics->Gauge("atoll_store_free_bytes", "What is free in it, for the daemon.")
      .Add(host->store_free_bytes);
  metrics->Gauge("atoll_store_free_inodes", "Files that can still be made in it.")
      .Add(host->store_free_inodes);
}

void AddDns(const netpolicy::DnsCounts& counts, MetricSet* metrics) {
  MetricFamily& queries = metrics->Counter(
      "atoll_dns_queries_total",
      "Questions of sandboxes to the name server. result: answered, denied (the policy hides the "
      "name), failed (malformed, or no upstream has answered), limited (more than the sandbox may "
      "ask). type: A, AAAA, or other, as that of a question that was not read.",
      {"result", "type"});
  for (size_t result = 0; result < netpolicy::kDnsResultNames.size(); ++result) {
    for (size_t type = 0; type < netpolicy::kDnsTypeNames.size(); ++type) {
      queries.Add(counts.at(result, type),
                  {Text(netpolicy::kDnsResultNames[result]), Text(netpolicy::kDnsTypeNames[type])});
    }
  }
}

void AddHost(const HostSample& host, MetricSet* metrics) {
  MetricFamily& pressure = metrics->Gauge(
      "atoll_host_pressure_ratio",
      "Share of the last 10 s in which some process of the host waited for the resource (PSI).",
      {"resource"});
  for (size_t i = 0; i < host.pressure.size(); ++i) {
    if (host.pressure[i]) pressure.Add(*host.pressure[i], {kPressures[i]});
  }
  MetricFamily& entries = metrics->Gauge(
      "atoll_conntrack_entries", "Connections that the kernel tracks in the daemon's network.");
  if (host.conntrack_entries) entries.Add(*host.conntrack_entries);
  MetricFamily& limit =
      metrics->Gauge("atoll_conntrack_limit", "Connections that the kernel can track.");
  if (host.conntrack_limit) limit.Add(*host.conntrack_limit);
}

void AddBudget(const Room& room, MetricSet* metrics) {
  metrics->Gauge("atoll_host_memory_promised_bytes", "Sum of the memory limits of all sandboxes.")
      .Add(room.held().memory_bytes);
  metrics
      ->Gauge("atoll_host_memory_budget_bytes",
              "What that sum may be (runtime.overcommit); 0: any.")
      .Add(room.budget().memory_budget);
}

void AddHealth(const Health& health, MetricSet* metrics) {
  metrics->Gauge("atoll_troubles", "What is wrong with this daemon, in number; see GET /health.")
      .Add(health.troubles().size());
  MetricFamily& trouble = metrics->Gauge(
      "atoll_trouble", "1 for each subject that GET /health calls wrong.", {"subject"});
  for (const auto& [subject, text] : health.troubles()) trouble.Add(1, {subject});
}

}  // namespace

void AddMetrics(const Sandboxes& all, const Snapshots& snapshots, const Admission& admission,
                const SlotPool& slots, const netpolicy::Network& network,
                const images::ImageStore& images, const Health& health, const HostSample* host,
                const QuotaSample* quotas, MetricSet* metrics) {
  const CreateStats& stats = all.creates.stats();
  AddCreates(stats, metrics);
  AddSteps(stats, slots, metrics);
  AddSandboxes(all, metrics);
  AddLife(all, snapshots.stats(), metrics);
  AddAdmission(stats, admission, slots, metrics);
  AddStock(all, metrics);
  AddHistory(all.departures.stats(), metrics);
  AddDisk(images, host, quotas, metrics);
  AddDns(network.dns_counts(), metrics);
  if (host != nullptr) AddHost(*host, metrics);
  AddBudget(all.room, metrics);
  AddGpus(all.check.gpus(), metrics);
  MetricFamily& differences =
      metrics->Counter("atoll_differences_total",
                       "Where records, spawner and kernel did not agree, by kind.", {"kind"});
  for (int i = 0; i < kDifferences; ++i) {
    differences.Add(all.reconciler.differences()[static_cast<size_t>(i)],
                    {Text(DifferenceName(i))});
  }
  metrics->Counter("atoll_network_repairs_total", "Rules and links that had to be put back.")
      .Add(network.repairs());
  AddHealth(health, metrics);
}

}  // namespace atl::sandbox
