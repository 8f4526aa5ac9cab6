// Fills a sandbox so that no two fields have the same value, and lists all its fields as text. The
// fields are found by their position, so that the tree's own descriptions and copies are compared
// with something independent of them. A field that is added to a struct does not compile until it
// has a place here.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netpolicy/policy/policy_json.h"
#include "runtime/sandbox/record/record_fields.h"

namespace atl::sandbox {

template <MaybeConst<Sandbox> S, typename F>
void EachMember(S& s, F each) {
  auto& [id, host_id, stocked, tenant, created, spec, devices, device_env, digest, config, layers,
         fork, token, secure, authority, metadata, expires, state, reason, message, transition,
         slot, reclaimed, denials, ended] = s;
  [&](auto&... all) { (each(all), ...); }(id, host_id, stocked, tenant, created, spec, devices,
                                          device_env, digest, config, layers, fork, token, secure,
                                          authority, metadata, expires, state, reason, message,
                                          transition, slot, reclaimed, denials);
}
template <MaybeConst<netpolicy::Denial> S, typename F>
void EachMember(S& s, F each) {
  auto& [time, hostname, address, port, protocol, reason, count, by_rules] = s;
  [&](auto&... all) { (each(all), ...); }(time, hostname, address, port, protocol, reason, count,
                                          by_rules);
}
template <MaybeConst<Spec> S, typename F>
void EachMember(S& s, F each) {
  auto& [image, from, snapshot, entrypoint, env, extensions, platform, limits, reserved, hooks,
         volumes, readonly, isolation, unique, renew, idle, reclaims, network] = s;
  [&](auto&... all) { (each(all), ...); }(image, from, snapshot, entrypoint, env, extensions,
                                          platform, limits, reserved, hooks, volumes, readonly,
                                          isolation, unique, renew, idle, reclaims, network);
}
template <MaybeConst<intercept::Authority> S, typename F>
void EachMember(S& s, F each) {
  auto& [certificate, key, link] = s;
  [&](auto&... all) { (each(all), ...); }(certificate, key, link);
}
template <MaybeConst<Reservation> S, typename F>
void EachMember(S& s, F each) {
  auto& [memory, cpu] = s;
  [&](auto&... all) { (each(all), ...); }(memory, cpu);
}
template <MaybeConst<IdlePolicy> S, typename F>
void EachMember(S& s, F each) {
  auto& [after, ends] = s;
  [&](auto&... all) { (each(all), ...); }(after, ends);
}
template <MaybeConst<wire::Hook> S, typename F>
void EachMember(S& s, F each) {
  auto& [name, schedule, argv, timeout] = s;
  [&](auto&... all) { (each(all), ...); }(name, schedule, argv, timeout);
}
// Leaves out what a sandbox does not take over from its image: the image's programs, and its fields
// for builders of derived images.
template <MaybeConst<images::ImageConfig> C, typename F>
void EachMember(C& c, F each) {
  auto& [env, entrypoint, cmd, working_dir, user, architecture, labels, exposed_ports, volumes,
         shell, stop_signal] = c;
  [&](auto&... all) { (each(all), ...); }(env, working_dir, user, architecture, volumes,
                                          stop_signal);
}
template <MaybeConst<netpolicy::SlotRequest> S, typename F>
void EachMember(S& s, F each) {
  auto& [sandbox, policy, network, hostname, bandwidth, tenant] = s;
  [&](auto&... all) { (each(all), ...); }(sandbox, policy, network, hostname, bandwidth, tenant);
}
template <MaybeConst<Platform> S, typename F>
void EachMember(S& s, F each) {
  auto& [os, arch] = s;
  [&](auto&... all) { (each(all), ...); }(os, arch);
}
template <MaybeConst<wire::Volume> S, typename F>
void EachMember(S& s, F each) {
  auto& [kind, source, sub_path, target, read_only, own_credentials] = s;
  [&](auto&... all) { (each(all), ...); }(kind, source, sub_path, target, read_only,
                                          own_credentials);
}

// Gives each field a value that no other field has.
struct Fill {
  void Set(std::string& text) { text = "\"'\\ \xc3\xa9" + std::to_string(++last); }
  void Set(uint16_t& number) { number = static_cast<uint16_t>(++last); }
  void Set(uint32_t& number) { number = ++last; }
  void Set(uint64_t& number) { number = (uint64_t{1} << 40) + ++last; }
  void Set(int64_t& number) { number = 1'700'000'000'000 + ++last; }
  void Set(bool& flag) { flag = true; }
  void Set(State& state) { state = State::kPaused; }
  void Set(wire::Volume::Kind& kind) { kind = wire::Volume::Kind::kHost; }
  void Set(cgroup::Limits& limits) { limits = cgroup::DistinctLimits(++last); }
  void Set(std::map<std::string, std::string>& map) { Set(map["key"]); }
  void Set(netpolicy::SharedPolicy& policy) {
    policy = netpolicy::Share(*netpolicy::ParsePolicy(
        R"({"defaultAction":"deny","egress":[{"action":"allow","target":"example.com"}]})"));
  }
  template <typename T>
  void Set(std::vector<T>& list) {
    Set(list.emplace_back());
    Set(list.emplace_back());
  }
  template <typename T>
  void Set(std::optional<T>& value) {
    Set(value.emplace());
  }
  template <typename T>
  requires requires(T& value) {
    EachMember(value, [](auto&) {});
  }
  void Set(T& value) {
    EachMember(value, [this](auto& member) { Set(member); });
  }
  uint32_t last = 0;
};

inline Sandbox Sample() {
  Sandbox s;
  Fill().Set(s);
  s.spec.network.sandbox = s.id;
  s.spec.network.tenant = s.tenant;
  return s;
}

// Returns the fields as text, in their order. A nested struct contributes its fields one by one.
template <typename T>
std::vector<std::string> TextsOf(const T& value) {
  if constexpr (requires { EachMember(value, [](auto&) {}); }) {
    std::vector<std::string> texts;
    EachMember(value, [&](const auto& member) {
      for (std::string& text : TextsOf(member)) texts.push_back(std::move(text));
    });
    return texts;
  } else if constexpr (requires { value.has_value(); }) {
    return {value ? testing::PrintToString(TextsOf(*value)) : "none"};
  } else if constexpr (std::is_same_v<T, std::vector<wire::Volume>> ||
                       std::is_same_v<T, std::vector<wire::Hook>> ||
                       std::is_same_v<T, std::vector<netpolicy::Denial>>) {
    std::string all;
    for (const auto& item : value) all += testing::PrintToString(TextsOf(item));
    return {all};
  } else if constexpr (std::is_same_v<T, netpolicy::SharedPolicy>) {
    return {value ? netpolicy::PolicyToJson(*value) : "none"};
  } else if constexpr (std::is_same_v<T, cgroup::Limits>) {
    std::string all;
    for (const auto& field : cgroup::kLimitFields) {
      all += std::to_string(value.*field.value) + " ";
    }
    return {all};
  } else {
    return {testing::PrintToString(value)};
  }
}

}  // namespace atl::sandbox
