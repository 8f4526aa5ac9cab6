#include "runtime/sandbox/create/gpus.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace atl::sandbox {
namespace {

// A sandbox that waits for its image has its GPUs already. One that is being taken down has them
// until the spawner has reported its end.
bool HoldsDevices(State state) {
  return Holds(state) || state == State::kAwaiting;
}

}  // namespace

Result<size_t> Gpus::Parse(std::map<std::string, std::string>* resource_limits) const {
  if (offered_.empty()) return size_t{0};
  const auto asked = resource_limits->extract(kGpu);
  if (!asked || asked.mapped() == "0") return size_t{0};
  const std::string& text = asked.mapped();
  size_t count = offered_.size();
  if (text != "all") {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, count);
    if (error != std::errc() || rest != end) {
      return Fail(Code::kInvalidArgument,
                  "resourceLimits.gpu '" + text.substr(0, 40) + "': use a whole number, or all");
    }
  }
  if (count > offered_.size()) {
    return Fail(Code::kInvalidArgument, "resourceLimits.gpu " + std::to_string(count) +
                                            ": this host has " + std::to_string(offered_.size()));
  }
  return count;
}

std::map<std::string, size_t> Gpus::Holders(const std::vector<Sandbox>& others) const {
  std::map<std::string, size_t> holders;
  for (const wire::OfferedDevice& device : offered_) holders[device.name] = 0;
  const auto count = [&holders](const Sandbox& sandbox) {
    for (const std::string& name : sandbox.devices) {
      if (const auto found = holders.find(name); found != holders.end()) ++found->second;
    }
  };
  for (const auto& [id, sandbox] : registry_) {
    if (HoldsDevices(sandbox.state)) count(sandbox);
  }
  for (const Sandbox& sandbox : others) count(sandbox);
  return holders;
}

size_t Gpus::Free() const {
  const auto holders = Holders({});
  return static_cast<size_t>(std::count_if(holders.begin(), holders.end(),
                                           [](const auto& device) { return device.second == 0; }));
}

Status Gpus::Give(size_t count, const std::vector<Sandbox>& others, Sandbox& sandbox) const {
  sandbox.devices.clear();
  sandbox.device_env.clear();
  if (count == 0) return {};
  if (!sandbox.spec.isolation.empty()) {
    return Fail(Code::kUnimplemented, "resourceLimits.gpu: a sandbox with isolation " +
                                          TierOf(sandbox.spec) + " has no GPU; use namespace");
  }
  const auto holders = Holders(others);
  std::vector<const wire::OfferedDevice*> usable;
  for (const wire::OfferedDevice& device : offered_) {
    if (shared_ || holders.at(device.name) == 0) usable.push_back(&device);
  }
  if (usable.size() < count) {
    // The count would tell a tenant how many the others have.
    if (!sandbox.tenant.empty()) {
      return Fail(
          Code::kResourceExhausted,
          "resourceLimits.gpu " + std::to_string(count) +
              ": this host has not enough free GPUs; delete a sandbox that has one, or try later");
    }
    return Fail(Code::kResourceExhausted,
                "resourceLimits.gpu " + std::to_string(count) + ": " +
                    std::to_string(usable.size()) + " of " + std::to_string(offered_.size()) +
                    " GPUs of this host are free; delete a sandbox that has one, or try later");
  }
  std::stable_sort(usable.begin(), usable.end(), [&holders](const auto* a, const auto* b) {
    return holders.at(a->name) < holders.at(b->name);
  });
  for (size_t i = 0; i < count; ++i) {
    sandbox.devices.push_back(usable[i]->name);
    for (const std::string& entry : usable[i]->env) {
      if (std::find(sandbox.device_env.begin(), sandbox.device_env.end(), entry) ==
          sandbox.device_env.end()) {
        sandbox.device_env.push_back(entry);
      }
    }
  }
  return {};
}

}  // namespace atl::sandbox
