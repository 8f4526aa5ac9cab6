// What the store keeps of a sandbox: one list, which writing (a const one), reading and tests
// visit.
#pragma once

#include <concepts>
#include <type_traits>

#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

template <typename T, typename Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

// The fields that have no column of their own: one JSON object. Required: in every record. Added:
// in every record since there is such a field; absent, it has its default. Optional: likewise, and
// left out while it has its default. Group: an object within the object, left out while all of it
// has its default.
template <MaybeConst<Sandbox> S, typename Io>
void VisitSpec(S& s, Io& io) {
  io.Required("image", s.spec.image);
  io.Required("digest", s.image_digest);
  io.Required("layers", s.layers);
  io.Required("entrypoint", s.spec.entrypoint);
  io.Required("env", s.spec.env);
  io.Required("metadata", s.metadata);
  io.Required("token", s.access_token);
  io.Required("limits", s.spec.limits);
  io.Optional("reserved", s.spec.reserved);
  io.Optional("hooks", s.spec.hooks);
  io.Optional("snapshot", s.spec.snapshot_id);
  // Without the program it names, which a request says or a snapshot does not keep.
  io.Group("config", s.config, [](auto& in, auto& config) {
    in.Required("env", config.env);
    in.Required("cwd", config.working_dir);
    in.Required("user", config.user);
    in.Required("arch", config.architecture);
    in.Optional("volumes", config.volumes);
    in.Optional("stop_signal", config.stop_signal);
  });
  io.Optional("volumes", s.spec.volumes);
  io.Optional("readonly_root", s.spec.readonly_root);
  io.Optional("unique_name", s.spec.unique_name);
  io.Optional("secure_token", s.secure_token);
  io.Optional("authority", s.authority);
  io.Optional("renew_by", s.spec.renew_by_seconds);
  // As text within the text: taking it apart and together again is most of what a large one costs.
  io.Optional("policy", s.spec.network.policy);
  io.Group("network", s.spec.network, [](auto& in, auto& network) {
    in.Required("name", network.network);
    in.Required("hostname", network.hostname);
  });
  io.Optional("bandwidth", s.spec.network.bytes_per_second);
  io.Optional("idle", s.spec.idle);
  io.Optional("reclaims", s.spec.reclaims);
  io.Optional("reclaimed", s.reclaimed_bytes);
  io.Optional("platform", s.spec.platform);
  io.Optional("extensions", s.spec.extensions);
  io.Optional("host_id", s.host_id);
  io.Optional("fork_layer", s.fork_layer);
  io.Optional("template", s.spec.template_id);
  io.Optional("stocked", s.stocked);
  io.Optional("tenant", s.tenant);
}

template <MaybeConst<Platform> P, typename Io>
void VisitMembers(P& platform, Io& io) {
  io.Required("os", platform.os);
  io.Required("arch", platform.arch);
}

template <MaybeConst<IdlePolicy> I, typename Io>
void VisitMembers(I& idle, Io& io) {
  io.Required("after", idle.after_seconds);
  io.Required("ends", idle.ends);
}

template <MaybeConst<intercept::Authority> A, typename Io>
void VisitMembers(A& authority, Io& io) {
  io.Required("certificate", authority.certificate);
  io.Required("key", authority.key);
  io.Required("link", authority.link);
}

template <MaybeConst<Reservation> R, typename Io>
void VisitMembers(R& reserved, Io& io) {
  io.Required("memory", reserved.memory_bytes);
  io.Required("cpu", reserved.cpu_millis);
}

template <MaybeConst<wire::Hook> H, typename Io>
void VisitMembers(H& hook, Io& io) {
  io.Required("name", hook.name);
  io.Required("schedule", hook.schedule);
  io.Required("argv", hook.argv);
  io.Required("timeout", hook.timeout_seconds);
}

template <MaybeConst<wire::Volume> V, typename Io>
void VisitMembers(V& volume, Io& io) {
  io.Required("host", volume.kind);
  io.Required("source", volume.source);
  io.Required("sub", volume.sub_path);
  io.Required("target", volume.target);
  io.Required("ro", volume.read_only);
  io.Optional("own_credentials", volume.own_credentials);
}

template <MaybeConst<cgroup::Limits> L, typename Io>
void VisitMembers(L& limits, Io& io) {
  for (const auto& field : cgroup::kLimitFields) io.Added(field.name, limits.*field.value);
}

}  // namespace atl::sandbox
