// The GPUs of sandboxes. A sandbox that asks for GPUs (resourceLimits.gpu) gets whole devices.
// The records say who has which, and nothing else does: a device is free if no sandbox in the
// registry holds it. So no end of a sandbox, of the daemon or of the spawner can lose a device, or
// give it back twice.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/wire/device.h"

namespace atl::sandbox {

// Name of the key in resourceLimits. Its value is a number of GPUs, or "all".
inline constexpr char kGpu[] = "gpu";

class Gpus {
 public:
  // `registry` outlives this object. `shared`: several sandboxes may have one device.
  Gpus(const Registry& registry, bool shared, std::vector<wire::OfferedDevice> offered)
      : registry_(registry), shared_(shared), offered_(std::move(offered)) {}

  // Call for each new spawner.
  void SetOffered(std::vector<wire::OfferedDevice> devices) { offered_ = std::move(devices); }

  // Takes the GPUs out of a request's limits. A host that offers none leaves the key to
  // cgroup::ParseLimits, which refuses it. kInvalidArgument: not a number, "all", or more than this
  // host has. 0: none.
  Result<size_t> Parse(std::map<std::string, std::string>* resource_limits) const;
  // Gives the sandbox `count` GPUs with their variables. `others`: sandboxes that will be in the
  // registry, too. The sandbox has them as soon as it is in the registry. kResourceExhausted: too
  // few are free. kUnimplemented: its tier has no GPUs.
  Status Give(size_t count, const std::vector<Sandbox>& others, Sandbox& sandbox) const;

  size_t count() const { return offered_.size(); }
  size_t Free() const;

 private:
  // How many sandboxes hold each device that this host offers.
  std::map<std::string, size_t> Holders(const std::vector<Sandbox>& others) const;

  const Registry& registry_;
  const bool shared_;
  std::vector<wire::OfferedDevice> offered_;
};

}  // namespace atl::sandbox
