#include "runtime/sandbox/sandboxes.h"

#include <utility>

namespace atl::sandbox {
namespace {

struct Row {
  Action action;
  void (*act)(Sandboxes& all, Sandbox& sandbox);
};

// The effect of each action: one row each.
constexpr Row kActs[] = {
    {Action::kWait, [](Sandboxes& all, Sandbox& s) { all.creates.AwaitImage(s); }},
    {Action::kLaunch, [](Sandboxes& all, Sandbox& s) { all.creates.Enqueue(s); }},
    {Action::kPublish, [](Sandboxes& all, Sandbox& s) { all.creates.Publish(s); }},
    {Action::kFreeze, [](Sandboxes& all, Sandbox& s) { all.pauses.Ask(s, true); }},
    {Action::kThaw, [](Sandboxes& all, Sandbox& s) { all.pauses.Ask(s, false); }},
    {Action::kSettle, [](Sandboxes& all, Sandbox& s) { all.waiters.Settle(s, {}); }},
    {Action::kRelease, [](Sandboxes& all, Sandbox& s) { all.endings.Release(s); }},
    {Action::kKeep,
     [](Sandboxes& all, Sandbox& s) {
       s.stocked ? all.members.Dispose(s.id) : all.expiry.SetDeadline(s);
     }},
    {Action::kForget, [](Sandboxes& all, Sandbox& s) { all.endings.Forget(s); }},
    {Action::kReplace, [](Sandboxes& all, Sandbox& s) { all.rollbacks.DestroyFormer(s); }},
    {Action::kBegin, [](Sandboxes& all, Sandbox& s) { all.rollbacks.StartEntrypoint(s); }},
};

consteval bool EachHasOneRow() {
  for (int i = 0; i < kActions; ++i) {
    const auto action = static_cast<Action>(i);
    int rows = 0;
    for (const Row& row : kActs) rows += row.action == action ? 1 : 0;
    if (rows != (HasEffect(action) ? 1 : 0)) return false;
  }
  return true;
}
static_assert(EachHasOneRow(), "an action without a row, or with two");

Meter::Sources CompleteSources(Meter::Sources sources, const SlotPool& slots,
                               const Snapshots& snapshots) {
  sources.prepared_cpu = [&slots](uint32_t slot) { return slots.prepared_cpu(slot); };
  sources.snapshot_bytes = [&snapshots] { return snapshots.BytesByOwner(); };
  return sources;
}

}  // namespace

Sandboxes::Sandboxes(const Parts& parts, Settings settings)
    : registry(std::move(settings.socket_directory), settings.instance),
      terms(parts.tenants),
      room(std::move(settings.budget)),
      layers(parts.images),
      machine(parts.clock, parts.store),
      attempts(parts.clock, parts.store, registry),
      counts(registry),
      meter(parts.loop, parts.clock, parts.spawner, registry,
            CompleteSources(std::move(settings.meter), parts.slots, parts.snapshots)),
      expiry(
          parts.loop, parts.clock, [this](const std::string& id) { endings.Expire(id); },
          settings.keep_ended_seconds),
      vaults(parts.loop, parts.network, parts.spawner, std::move(settings.authorities)),
      sessions(parts.loop, parts.spawner),
      lost_volumes(parts.clock, parts.history, registry),
      builder(parts.loop, parts.spawner, registry.socket_directory(), settings.instance),
      orphans(parts.spawner, parts.slots, registry, layers),
      check({parts.clock, parts.network, parts.images, parts.puller, parts.imports, parts.objects,
             parts.snapshots, registry, room, terms, parts.tenants},
            std::move(settings.check)),
      launches(parts.loop, parts.logs, registry, machine),
      creates({parts.clock,
               parts.network,
               parts.images,
               parts.puller,
               parts.imports,
               parts.volumes,
               parts.objects,
               parts.history,
               vaults,
               expiry,
               {parts.clock, parts.admission, parts.slots, builder, parts.objects, orphans},
               registry,
               room,
               layers,
               machine,
               waiters,
               attempts,
               launches,
               check},
              settings.private_directories,
              [this](Sandbox& sandbox, const wire::SandboxRecord& record) {
                endings.Exited(sandbox, record);
              }),
      pauses({parts.loop, parts.clock, parts.spawner, parts.store, parts.history, registry, machine,
              waiters},
             {std::move(settings.cpu_micros), settings.private_directories}),
      changes({parts.clock, parts.network, parts.store, parts.history, expiry, vaults, sessions,
               registry, machine, terms},
              settings.renew_interval_seconds),
      recordings(parts.loop, std::move(settings.recordings)),
      departures({parts.loop, parts.clock, parts.store, parts.logs, parts.history, recordings,
                  registry, parts.tenants},
                 settings.history),
      endings({parts.loop, parts.clock, parts.spawner, parts.store, parts.slots, parts.volumes,
               parts.objects, parts.logs, parts.history, vaults, registry, machine, waiters,
               launches, counts, parts.network, departures}),
      copies({parts.spawner, parts.images, parts.snapshots, registry, layers, attempts, pauses},
             std::move(settings.private_directories)),
      forks({parts.images, parts.snapshots, parts.objects, parts.store, registry, room, machine,
             attempts, check, creates, pauses}),
      rollbacks({parts.loop,
                 parts.clock,
                 parts.network,
                 parts.store,
                 parts.snapshots,
                 parts.objects,
                 parts.logs,
                 vaults,
                 {parts.clock, parts.admission, parts.slots, builder, parts.objects, orphans},
                 registry,
                 room,
                 layers,
                 machine,
                 waiters,
                 attempts,
                 launches,
                 orphans,
                 check,
                 creates,
                 pauses}),
      pools({parts.loop, parts.clock, parts.admission, parts.slots, builder, parts.pools, room,
             terms, check, orphans},
            settings.parked_sandboxes, settings.automatic_pools),
      members({parts.loop, parts.clock, parts.network, parts.store, parts.history, expiry, registry,
               room, machine, attempts, check, creates, pauses}),
      templates({parts.loop, parts.clock, parts.admission, parts.templates, registry, room, check,
                 members},
                settings.parked_sandboxes),
      orders({parts.tenants, room, attempts, check, creates, pools, templates}),
      reconciler(
          {parts.loop,    parts.clock, parts.spawner, parts.network, parts.store, parts.slots,
           parts.volumes, parts.logs,  parts.history, parts.health,  expiry,      registry,
           room,          layers,      machine,       waiters,       attempts,    orphans,
           pauses,        endings,     departures,    rollbacks,     pools,       templates},
          std::move(settings.has_processes)) {
  Register(parts);
}

void Sandboxes::Shutdown(std::function<void(Status)> done) {
  meter.Checkpoint([this, done = std::move(done)] { reconciler.Shutdown(done); });
}

void Sandboxes::Register(const Parts& parts) {
  layers.AddUser(
      [&snapshots = parts.snapshots](wire::LayerId id) { return snapshots.LayerInUse(id); });
  layers.AddUser([this](wire::LayerId id) { return pools.LayerInUse(id); });
  parts.network.SetCeilings([this](const std::string& tenant) {
    const SharedTerms its_terms = terms.Of(tenant);
    return its_terms ? its_terms->ceiling : nullptr;
  });
  parts.volumes.SetQuota([this](const tenants::Caller& owner, uint64_t disk_bytes) -> Status {
    const SharedTerms its = terms.Of(owner.tenant, owner);
    return its ? CheckVolumeQuota(its, room.OwnedBy(owner.tenant), disk_bytes) : Status();
  });
  parts.snapshots.SetQuota(
      [this](const std::string& owner, const tenants::Caller& caller) -> Status {
        const SharedTerms its = terms.Of(owner, caller);
        return its ? CheckSnapshotQuota(its, room.OwnedBy(owner)) : Status();
      });
  room.Add([&volumes = parts.volumes](const std::string& tenant, Owned* owned) {
    volumes.CountOwned(tenant, owned);
  });
  room.Add([&snapshots = parts.snapshots](const std::string& tenant, Owned* owned) {
    snapshots.CountOwned(tenant, owned);
  });
  room.Add([this](const std::string& tenant, Owned* owned) { pools.CountOwned(tenant, owned); });
  // Stocks give way to creates in this order.
  room.Add({.give_way = [&slots = parts.slots] { slots.GiveWay(); }});
  room.Add({.held = [this] { return pools.stock(); },
            .kept = [this](const auto& tenant, Kept* kept) { pools.CountKept(tenant, kept); },
            .give_way = [this] { pools.GiveWay(); }});
  room.Add({.held = [this] { return templates.stock(); },
            .kept = [this](const auto& tenant, Kept* kept) { templates.CountKept(tenant, kept); },
            .give_way = [this] { templates.GiveWay(); }});
  orphans.OnGone([this] { rollbacks.FormersGone(); });
  const auto destroyed = [this](const std::string& host_id, const wire::EndReading& end) {
    meter.OnDestroyed(host_id, end);
  };
  if (meter.on()) {
    orphans.OnDestroyed(destroyed);
    endings.OnDestroyed(destroyed);
    members.OnGiven([this](const Sandbox& s) { meter.OnClaimed(s); });
    parts.snapshots.OnChange([this] { meter.OnSnapshots(); });
    pools.OnStock([this] { meter.OnPools(pools.stock().sandboxes); });
  }

  for (const Row& row : kActs) {
    machine.Does(row.action, [this, act = row.act](Sandbox& sandbox) { act(*this, sandbox); });
  }
  // The watchers run in the order in which a transition takes effect (effects_test.cc).
  machine.Watch([this](Sandbox& s, State before) {
    room.OnTransition(s, before);
    if (Holds(before) == Holds(s.state)) return;
    Holds(before) ? layers.Drop(s.layers) : layers.Hold(s.layers);
  });
  machine.Watch([this](Sandbox& s, State before) { pools.OnTransition(s, before); });
  machine.Watch([this, &volumes = parts.volumes](Sandbox& s, State before) {
    if (!IsLeaving(s.state) || IsLeaving(before)) return;
    expiry.Remove(s.id);
    volumes.Leave(s.id);
  });
  machine.Watch([this](Sandbox& s, State before) { pauses.OnTransition(s, before); });
  machine.Watch([this](Sandbox& s, State before) { launches.OnTransition(s, before); });
  machine.Watch([this](Sandbox& s, State before) { templates.OnTransition(s, before); });
  machine.Watch([this](Sandbox& s, State before) { endings.OnTransition(s, before); });
  machine.Watch([this](Sandbox& s, State before) { meter.OnTransition(s, before); });
  machine.Watch([&history = parts.history, &clock = parts.clock](Sandbox& s, State before) {
    if (StateName(before) != StateName(s.state)) history.Note(s, clock.UnixMillis());
  });
}

}  // namespace atl::sandbox
