#include "tests/unit/sandbox/fakes.h"

#include <poll.h>

#include "runtime/wire/plan.h"

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

void FakeSpawner::Do(wire::Build asked, Done<wire::Built> done) {
  PendingBuild build{asked.plan->id, asked.plan->slot, std::move(asked.plan), {}, std::move(done)};
  build.control = std::move(controls[build.slot]);
  builds.push_back(std::move(build));
}

}  // namespace atl::sandbox
