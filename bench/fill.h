// Creates the idle sandboxes, a thousand for instance, that a measurement runs beside.
#pragma once

#include <thread>
#include <vector>

#include "bench/lab.h"

namespace atl::bench {

// Creates `total` more idle sandboxes over several connections at once. `members` is more JSON for
// each request, as in SandboxApi::Create.
inline Status Fill(const OwnDaemon& daemon, int total, const std::string& members) {
  constexpr int kFillers = 4;
  std::vector<Status> results(kFillers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kFillers; ++i) {
    const int share = total / kFillers + (i < total % kFillers ? 1 : 0);
    threads.emplace_back([&, share, result = &results[static_cast<size_t>(i)]] {
      auto api = daemon.Connect();
      if (!api) *result = Fail(std::move(api).error());
      for (int made = 0; *result && made < share; ++made) {
        auto sandbox = api->Create(kBusyboxImage, "{}", members);
        if (!sandbox) *result = Fail(std::move(sandbox).error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results) ATOLL_TRY(std::move(result));
  return {};
}

}  // namespace atl::bench
