#include "tests/unit/sandbox/fakes.h"

#include <poll.h>

namespace atl::sandbox {

void FakeLoop::Poll() {
  std::vector<Id> ready;
  for (const auto& [id, watch] : watches_) {
    pollfd wait{watch.fd, POLLIN, 0};
    if (::poll(&wait, 1, 0) == 1) ready.push_back(id);
  }
  for (Id id : ready) {
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;
    const Callback callback = found->second.callback;
    callback();
  }
  Run();
}

}  // namespace atl::sandbox
