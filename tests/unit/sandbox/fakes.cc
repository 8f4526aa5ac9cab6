#include "tests/unit/sandbox/fakes.h"

#include <poll.h>

namespace atl::sandbox {

void FakeLoop::Poll() {
  std::vector<std::pair<Id, uint32_t>> ready;
  for (const auto& [id, watch] : watches_) {
    pollfd wait{watch.fd, static_cast<short>(watch.events), 0};
    if (::poll(&wait, 1, 0) == 1) ready.emplace_back(id, static_cast<uint32_t>(wait.revents));
  }
  for (const auto& [id, events] : ready) {
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;
    const FdCallback callback = found->second.callback;
    callback(events);
  }
  Run();
}

}  // namespace atl::sandbox
