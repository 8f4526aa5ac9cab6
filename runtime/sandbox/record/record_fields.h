// The fields of a sandbox's record and of the structs in it (fields.h).
#pragma once

#include <string_view>

#include "runtime/sandbox/record/fields.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Omits the programs that an image names. A sandbox's record has them from its request; a
// snapshot's record lists them separately.
template <MaybeConst<images::ImageConfig> C, typename Io>
void VisitProcess(C& config, Io& io) {
  io.Required("env", config.env);
  io.Required("cwd", config.working_dir);
  io.Required("user", config.user);
  io.Required("arch", config.architecture);
  io.Optional("volumes", config.volumes);
  io.Optional("stop_signal", config.stop_signal);
}

// The fields that a transition changes. They have a text of their own, so a transition does not
// write the rest of the record.
template <MaybeConst<Sandbox> S, typename Io>
void VisitMoves(S& s, Io& io) {
  io.Required("slot", s.slot);
  io.Word("state", s.state, StateName,
          [&s](std::string_view word) { return ParseState(word, s.slot); });
  io.Required("reason", s.reason);
  io.Required("message", s.message);
  io.Required("transition", s.transition_at_ms);
  io.Optional("expires", s.expires_at_ms);
  io.Optional("reclaimed", s.reclaimed_bytes);
  io.Optional("denials", s.denials);
}

template <MaybeConst<netpolicy::Denial> D, typename Io>
void VisitFields(D& denial, Io& io) {
  io.Required("time", denial.time_ms);
  io.Optional("hostname", denial.hostname);
  io.Optional("address", denial.address);
  io.Optional("port", denial.port);
  io.Required("protocol", denial.protocol);
  io.Required("reason", denial.reason);
  io.Required("count", denial.count);
  io.Optional("by_rules", denial.by_rules);
}

template <MaybeConst<Sandbox> S, typename Io>
void VisitFields(S& s, Io& io) {
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
  io.Group("config", s.config, [](auto& in, auto& config) { VisitProcess(config, in); });
  io.Optional("volumes", s.spec.volumes);
  io.Optional("readonly_root", s.spec.readonly_root);
  io.Optional("isolation", s.spec.isolation);
  io.Optional("devices", s.devices);
  io.Optional("device_env", s.device_env);
  io.Optional("unique_name", s.spec.unique_name);
  io.Optional("secure_token", s.secure_token);
  io.Optional("authority", s.authority);
  io.Optional("renew_by", s.spec.renew_by_seconds);
  // The policy is text within the text: parsing and printing it is most of the cost of a large
  // record.
  io.Optional("policy", s.spec.network.policy);
  io.Group("network", s.spec.network, [](auto& in, auto& network) {
    in.Required("name", network.network);
    in.Required("hostname", network.hostname);
  });
  io.Optional("bandwidth", s.spec.network.bytes_per_second);
  io.Optional("idle", s.spec.idle);
  io.Optional("reclaims", s.spec.reclaims);
  io.Optional("platform", s.spec.platform);
  io.Optional("extensions", s.spec.extensions);
  io.Optional("host_id", s.host_id);
  io.Optional("fork_layer", s.fork_layer);
  io.Optional("template", s.spec.template_id);
  io.Optional("stocked", s.stocked);
  io.Optional("tenant", s.tenant);
}

template <MaybeConst<Platform> P, typename Io>
void VisitFields(P& platform, Io& io) {
  io.Required("os", platform.os);
  io.Required("arch", platform.arch);
}

template <MaybeConst<IdlePolicy> I, typename Io>
void VisitFields(I& idle, Io& io) {
  io.Required("after", idle.after_seconds);
  io.Required("ends", idle.ends);
}

template <MaybeConst<intercept::Authority> A, typename Io>
void VisitFields(A& authority, Io& io) {
  io.Required("certificate", authority.certificate);
  io.Required("key", authority.key);
  io.Required("link", authority.link);
}

template <MaybeConst<Reservation> R, typename Io>
void VisitFields(R& reserved, Io& io) {
  io.Required("memory", reserved.memory_bytes);
  io.Required("cpu", reserved.cpu_millis);
}

template <MaybeConst<wire::Hook> H, typename Io>
void VisitFields(H& hook, Io& io) {
  io.Required("name", hook.name);
  io.Required("schedule", hook.schedule);
  io.Required("argv", hook.argv);
  io.Required("timeout", hook.timeout_seconds);
}

inline constexpr std::string_view kVolumeKinds[] = {"named", "host", "objects"};
template <MaybeConst<wire::Volume> V, typename Io>
void VisitFields(V& volume, Io& io) {
  io.Word("kind", volume.kind, kVolumeKinds);
  io.Required("source", volume.source);
  io.Required("sub", volume.sub_path);
  io.Required("target", volume.target);
  io.Required("ro", volume.read_only);
  io.Optional("own_credentials", volume.own_credentials);
}

template <MaybeConst<cgroup::Limits> L, typename Io>
void VisitFields(L& limits, Io& io) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    // The spawner enforced its limits on every host before records named them, so an old record
    // means the default. Any other limit was not enforced: 0.
    const bool was_kept = field.keeper == cgroup::LimitKeeper::kSpawner;
    io.Added(field.name, limits.*field.value, was_kept ? field.default_value : 0);
  }
}

}  // namespace atl::sandbox
