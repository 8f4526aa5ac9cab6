#include "runtime/sandbox/create/orphans.h"

#include <unistd.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

void Orphans::Destroy(const std::string& host_id, uint32_t slot, Done done) {
  all_[host_id] = slot;
  ::unlink(registry_.SocketPathOfHost(host_id).c_str());
  spawner_.Ask(
      wire::Destroy{.id = host_id, .keep_reading = destroyed_ != nullptr},
      [this, host_id, slot, done = std::move(done)](const Result<wire::Destroyed>& destroyed) {
        Destroyed(host_id, slot, destroyed, done);
      });
}

void Orphans::Destroyed(const std::string& host_id, uint32_t slot,
                        const Result<wire::Destroyed>& destroyed, const Done& done) {
  if (destroyed) {
    if (destroyed_) destroyed_(host_id, destroyed->reading);
    if (all_.erase(host_id) != 0 && slot != 0) slots_.Release(slot);
    // The orphan may have been the last user of its layers.
    layers_.Collect();
    if (done) done({});
    return gone_();
  }
  all_.erase(host_id);
  if (done) done(Fail(destroyed.error()));
  // The reconciler asks the next spawner.
  if (destroyed.error().code() == Code::kUnavailable) return;
  LogLine(LogLevel::kError, "cannot destroy a sandbox that has no record")
      .Add("sandbox", host_id)
      .Add(destroyed.error());
  gone_();
}

std::vector<uint32_t> Orphans::Slots() const {
  std::vector<uint32_t> slots;
  for (const auto& [host_id, slot] : all_) slots.push_back(slot);
  return slots;
}

}  // namespace atl::sandbox
