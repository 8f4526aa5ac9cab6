// Tells the owner of a sandbox that an admin of another tenant has entered it, and why: an event of
// the sandbox.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/api/ingress/proxy_judge.h"
#include "runtime/sandbox/store/history.h"

namespace atl::api {

class AdminEntries {
 public:
  // A sandbox keeps few events, so one key gets one event for the same reason in this time.
  static constexpr int64_t kMillisEach = 10 * 60 * 1000;

  explicit AdminEntries(sandbox::History& history) : history_(history) {}
  AdminEntries(const AdminEntries&) = delete;
  AdminEntries& operator=(const AdminEntries&) = delete;

  // `entry` has a reason.
  void Note(const Entry& entry, int64_t unix_ms);

 private:
  struct Row {
    size_t hash = 0;
    int64_t until_ms = 0;
  };

  sandbox::History& history_;
  // Two entries that share a row only add events.
  std::array<Row, 256> rows_{};
};

}  // namespace atl::api
