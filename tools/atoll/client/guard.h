// What makes a sandbox its client's: a process beside us that deletes it when we are gone, however
// we ended. Should that process end as well (the host went down), the sandbox's deadline is near:
// the guard moves it ahead as long as we live.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

class Guard {
 public:
  // Seconds to a guarded sandbox's deadline.
  static constexpr int kLease = 300;

  // `seconds` from now the sandbox is to end in any case; it was created with at most kLease.
  static Result<Guard> Start(const Settings& settings, const std::string& sandbox_id, int seconds);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = default;

  // The sandbox is gone: there is nothing left to do.
  void Release();

 private:
  explicit Guard(UniqueFd pipe) : pipe_(std::move(pipe)) {}
  UniqueFd pipe_;
};

// "2026-01-31T12:00:00Z", so many seconds from now.
std::string TimeIn(int seconds);

}  // namespace atl::cli
