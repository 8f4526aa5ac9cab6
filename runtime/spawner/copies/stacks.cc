#include "runtime/spawner/copies/stacks.h"

#include <sys/mount.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

Status Open(const Host& host, const std::string& path, Stacks* stacks) {
  ATOLL_ASSIGN(UniqueFd layer, CloneMount(host.store.root(), path.c_str(), false));
  ATOLL_TRY(SetMountAttributes(
      layer.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, -1,
      false));
  stacks->layers.push_back(std::move(layer));
  return {};
}

}  // namespace

Result<Stacks> OpenStacks(const Host& host, const Sandboxes& sandboxes,
                          const wire::DiffUpper& wanted) {
  const uint32_t slot = sandboxes.LiveSlot(wanted.id);
  if (slot == 0) return Fail(Code::kFailedPrecondition, "sandbox " + wanted.id + " has ended");
  const std::vector<wire::SandboxRecord> all = sandboxes.List();
  const auto found = std::find_if(all.begin(), all.end(), [&](const wire::SandboxRecord& record) {
    return record.id == wanted.id;
  });
  const std::vector<wire::LayerId>&now = found->layers, &was = wanted.against;
  for (const wire::LayerId layer : was) {
    if (host.store.HasLayer(layer)) continue;
    return Fail(Code::kNotFound, "layer " + std::to_string(layer) + " does not exist");
  }
  const auto differ = std::mismatch(now.rbegin(), now.rend(), was.rbegin(), was.rend());
  Stacks stacks;
  stacks.both = static_cast<size_t>(differ.first - now.rbegin());
  stacks.now = now.size() - stacks.both + 1;  // and the upper directory
  stacks.was = was.size() - stacks.both;
  ATOLL_TRY(Open(host, Store::UpperPath(slot) + "/upper", &stacks));
  std::vector<wire::LayerId> order(now.begin(), differ.first.base());
  order.insert(order.end(), was.begin(), differ.second.base());
  order.insert(order.end(), differ.first.base(), now.end());
  for (const wire::LayerId layer : order) ATOLL_TRY(Open(host, Store::LayerPath(layer), &stacks));
  return stacks;
}

}  // namespace atl::spawner
