// The plan: everything that the spawner needs to build one sandbox. Only data. What only the
// spawner may decide (capabilities, seccomp, user namespace, id range, allowed host paths) is not
// in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/wire/device.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/tier.h"
#include "runtime/wire/volume.h"

namespace atl::wire {

struct Plan {
  std::string id;               // valid for ValidSandboxId
  uint32_t slot = 0;            // a prepared slot: network namespace, id range, cgroup
  std::vector<LayerId> layers;  // topmost first
  bool readonly_root = false;
  std::string hostname;     // up to 64 characters of [a-z0-9-]
  std::string hosts;        // content of /etc/hosts, at most kMaxEtcFile
  std::string resolv_conf;  // content of /etc/resolv.conf, at most kMaxEtcFile
  cgroup::Limits limits;
  std::vector<Volume> volumes;       // up to kMaxVolumes
  std::vector<std::string> devices;  // names, up to kMaxDevices (device.h)
  std::string link;  // interface on the host whose bytes are the sandbox's, kMaxLinkName; "": none
  std::string tier{kNamespaceTier};  // the slot's tier

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.slot);
    io.List(self.layers, kMaxLayers);
    io(self.readonly_root, self.hostname, self.hosts, self.resolv_conf);
    io(self.limits);
    io.List(self.volumes, kMaxVolumes);
    io.List(self.devices, kMaxDevices);
    io(self.link, self.tier);
  }
};
inline constexpr size_t kMaxEtcFile = 8192;
inline constexpr size_t kMaxLinkName = 15;  // IFNAMSIZ without its NUL

}  // namespace atl::wire
