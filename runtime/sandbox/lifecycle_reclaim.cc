// What becomes of a paused sandbox's memory.
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

Status Lifecycle::CheckReclaim(Spec& spec) const {
  // The operator's word is for those who can have it, a client's is refused where nobody can.
  if (!spec.reclaims && config_.swap_bytes != 0) spec.reclaims = config_.pause_reclaims;
  if (!spec.reclaims.value_or(false)) spec.reclaims.reset();
  if (!spec.reclaims || config_.swap_bytes != 0) return {};
  return Fail(Code::kInvalidArgument,
              "extensions pause.memory 'reclaim': this host has no swap area for paused sandboxes; "
              "send 'keep', or have its operator set pause.swap_size and restart Atoll's spawner");
}

void Lifecycle::AskReclaim(const Entry& entry) {
  if (entry.sandbox.state != State::kPaused || !entry.sandbox.spec.reclaims) return;
  spawner_.Ask(wire::Reclaim{HostId(entry.sandbox)},
               [this, id = entry.sandbox.id, order = entry.freezing](
                   const Result<wire::Reclaimed>& reclaimed) { Reclaimed(id, order, reclaimed); });
}

void Lifecycle::Reclaimed(const std::string& id, uint64_t order,
                          const Result<wire::Reclaimed>& reclaimed) {
  Entry* const entry = Look(id);
  if (entry == nullptr || entry->freezing != order) return;
  Sandbox& sandbox = entry->sandbox;
  if (sandbox.state != State::kPaused) return;
  // Without a spawner: Reconcile asks the next one.
  if (!reclaimed && reclaimed.error().code() == Code::kUnavailable) return;
  Status stored;
  if (reclaimed) {
    const bool news = sandbox.reclaimed_bytes == 0;
    sandbox.reclaimed_bytes = reclaimed->swapped_bytes;
    if (news) {
      ++stats_.reclaimed;
      stats_.reclaimed_bytes += reclaimed->swapped_bytes;
    }
    LogLine(LogLevel::kInfo, "memory of a paused sandbox is in swap")
        .Add("sandbox", id)
        .Add("bytes", reclaimed->swapped_bytes)
        .Add("resident", reclaimed->resident_bytes);
    stored = store_.UpdateSpec(sandbox);
  } else {
    ++stats_.kept;
    const std::string why = WithoutPaths(reclaimed.error().message(), config_.private_directories);
    sandbox.message = PausedCause(sandbox).message + "; its memory is kept: " + why;
    LogLine(LogLevel::kWarning, "a paused sandbox keeps its memory")
        .Add("sandbox", id)
        .Add(reclaimed.error());
    Note(sandbox, "MemoryKept");
    stored = store_.Update(sandbox);
  }
  // It is told again after a restart.
  if (!stored) LogLine(LogLevel::kWarning, "cannot record").Add("sandbox", id).Add(stored.error());
}

}  // namespace atl::sandbox
