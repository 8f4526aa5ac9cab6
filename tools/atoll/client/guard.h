// Ties a sandbox to the life of its client. A guard process deletes the sandbox when the client
// exits for any reason. While the client lives, the guard keeps renewing a short deadline, so the
// sandbox also ends if the guard itself dies, for example with the host.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

class Guard {
 public:
  // Seconds from each renewal to the deadline of a guarded sandbox.
  static constexpr int kLease = 300;

  // Starts the guard process. `seconds` from now the sandbox ends in any case. It must have been
  // created with a deadline of at most kLease.
  static Result<Guard> Start(const Settings& settings, const std::string& sandbox_id, int seconds);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = default;

  // Ends the guard without action: the sandbox is already gone.
  void Release();

 private:
  explicit Guard(UniqueFd pipe) : pipe_(std::move(pipe)) {}
  UniqueFd pipe_;
};

// Returns the time in `seconds` from now: "2026-01-31T12:00:00Z".
std::string TimeIn(int seconds);

}  // namespace atl::cli
