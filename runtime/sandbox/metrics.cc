#include "runtime/sandbox/metrics.h"

#include <map>
#include <string_view>

namespace atl::sandbox {
namespace {

void Line(std::string_view name, std::string_view labels, uint64_t value, std::string* out) {
  out->append("atoll_").append(name);
  if (!labels.empty()) out->append("{").append(labels).append("}");
  out->append(" ").append(std::to_string(value)).append("\n");
}

}  // namespace

std::string MetricsText(const Lifecycle& lifecycle, const Admission& admission,
                        const SlotPool& slots, const netpolicy::Network& network,
                        const Health& health) {
  std::string out;
  const LifecycleStats& stats = lifecycle.stats();
  Line("creates_total", "result=\"ok\"", stats.created, &out);
  Line("creates_total", "result=\"refused\"", stats.create_refused, &out);
  Line("creates_total", "result=\"failed\"", stats.create_failed, &out);
  Line("deletes_total", "", stats.deleted, &out);
  Line("expirations_total", "", stats.expired, &out);
  Line("exits_total", "", stats.exited, &out);
  Line("lost_total", "", stats.lost, &out);
  Line("rollbacks_total", "result=\"ok\"", stats.rolled_back, &out);
  Line("rollbacks_total", "result=\"refused\"", stats.rollback_refused, &out);
  Line("rollbacks_total", "result=\"failed\"", stats.rollback_failed, &out);
  Line("pauses_total", "by=\"request\"", stats.paused, &out);
  Line("pauses_total", "by=\"idle\"", stats.idle_paused, &out);
  Line("wakes_total", "", stats.woken, &out);
  Line("idle_ends_total", "", stats.idle_ended, &out);
  Line("reclaims_total", "result=\"ok\"", stats.reclaimed, &out);
  Line("reclaims_total", "result=\"kept\"", stats.kept, &out);
  Line("reclaimed_bytes_total", "", stats.reclaimed_bytes, &out);
  Line("snapshots_total", "result=\"ok\"", lifecycle.snapshot_stats().taken, &out);
  Line("snapshots_total", "result=\"failed\"", lifecycle.snapshot_stats().failed, &out);
  Line("snapshot_held_microseconds_sum", "", lifecycle.snapshot_stats().held_micros, &out);
  Line("create_microseconds_sum", "", stats.create_micros, &out);
  Line("build_microseconds_sum", "", stats.build_micros, &out);
  for (size_t i = 0; i < stats.step_micros.size(); ++i) {
    const auto step = static_cast<wire::Step>(i);
    const bool build = step >= wire::kFirstBuildStep;
    Line(build ? "build_step_microseconds_sum" : "slot_step_microseconds_sum",
         "step=\"" + std::string(wire::StepName(step)) + "\"",
         build ? stats.step_micros[i] : slots.step_micros()[i], &out);
  }
  std::map<std::string_view, uint64_t> by_name;
  for (int i = 0; i < kStates; ++i) {
    const auto state = static_cast<State>(i);
    if (!IsLeaving(state)) by_name[StateName(state)];
  }
  uint64_t paused = 0, idle = 0, reclaimed = 0;
  for (const Sandbox* sandbox : lifecycle.All()) {
    ++by_name[StateName(sandbox->state)];
    if (sandbox->state != State::kPaused) continue;
    ++(Wakes(*sandbox) ? idle : paused);
    reclaimed += sandbox->reclaimed_bytes;
  }
  Line("paused", "by=\"request\"", paused, &out);
  Line("paused", "by=\"idle\"", idle, &out);
  Line("reclaimed_bytes", "", reclaimed, &out);
  Line("swap_area_bytes", "", lifecycle.swap_bytes(), &out);
  for (const auto& [name, count] : by_name) {
    Line("sandboxes", "state=\"" + std::string(name) + "\"", count, &out);
  }
  Line("builds", "state=\"active\"", admission.active(), &out);
  Line("builds", "state=\"waiting\"", admission.waiting(), &out);
  Line("slots", "state=\"ready\"", slots.ready(), &out);
  Line("slots", "state=\"resting\"", slots.resting(), &out);
  Line("slots_prepared_total", "", slots.prepared_total(), &out);
  Line("slot_misses_total", "", slots.misses_total(), &out);
  const PoolStats& pools = lifecycle.pools().stats();
  Line("pool_built_total", "", pools.built, &out);
  Line("pool_creates_total", "result=\"claimed\"", pools.claimed, &out);
  Line("pool_creates_total", "result=\"cold\"", pools.cold, &out);
  Line("pool_disposed_total", "", pools.disposed, &out);
  Line("pool_automatic", "", lifecycle.pools().automatic(), &out);
  for (const WarmPools::View& pool : lifecycle.pools().List()) {
    const std::string name = "pool=\"" + pool.record.name + "\",";
    Line("pool_sandboxes", name + "state=\"available\"", pool.available, &out);
    Line("pool_sandboxes", name + "state=\"allocated\"", pool.allocated, &out);
  }
  const TemplateStats& templates = lifecycle.templates().stats();
  Line("template_built_total", "", templates.built, &out);
  Line("template_failed_total", "", templates.failed, &out);
  Line("template_creates_total", "result=\"claimed\"", templates.claimed, &out);
  Line("template_creates_total", "result=\"waited\"", templates.waited, &out);
  Line("template_disposed_total", "", templates.disposed, &out);
  for (const TemplateRecord* record : lifecycle.templates().Records()) {
    const Templates::View view = *lifecycle.templates().Find(record->id);
    const std::string name = "template=\"" + record->id + "\",";
    Line("template_sandboxes", name + "state=\"ready\"", view.ready, &out);
    Line("template_sandboxes", name + "state=\"building\"", view.building, &out);
    Line("template_creates", name + "state=\"waiting\"", view.waiting, &out);
  }
  for (int i = 0; i < kDifferences; ++i) {
    Line("differences_total", "kind=\"" + std::string(DifferenceName(i)) + "\"",
         stats.differences[static_cast<size_t>(i)], &out);
  }
  Line("network_repairs_total", "", network.repairs(), &out);
  Line("troubles", "", health.troubles().size(), &out);
  for (const auto& [subject, trouble] : health.troubles()) {
    Line("trouble", "subject=\"" + subject + "\"", 1, &out);
  }
  return out;
}

}  // namespace atl::sandbox
