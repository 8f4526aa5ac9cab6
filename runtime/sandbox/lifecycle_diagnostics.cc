// What is kept for people who ask why: the entrypoint's output, and what has happened.
#include <utility>

#include "runtime/base/log.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

void Lifecycle::StartDiagnostics() {
  std::unordered_set<std::string> ids;
  for (const auto& [id, entry] : entries_) ids.insert(id);
  auto history = History::Open(store_.db(), loop_, Store::kRoomForEnds);
  if (history) {
    history_ = std::move(*history);
    if (auto kept = history_->KeepOnly(ids); !kept) {
      LogLine(LogLevel::kWarning, "cannot clean up the history").Add(kept.error());
    }
  } else {
    LogLine(LogLevel::kError, "no history of sandboxes is kept").Add(history.error());
  }
  if (auto started = logs_.Start(ids); !started) {
    LogLine(LogLevel::kError, "no output of sandboxes is kept").Add(started.error());
  }
}

void Lifecycle::FollowOutput(Entry& entry) {
  if (!entry.control) return;
  std::string received;
  UniqueFd socket = entry.control->TakeSocket(&received);
  entry.control.reset();
  logs_.Follow(entry.sandbox.id, std::move(socket), received);
}

void Lifecycle::Note(const Sandbox& sandbox, std::string kind) {
  // Being removed is the last that anybody could ask about, and nobody can.
  if (!history_ || sandbox.state == State::kStopping) return;
  history_->Add(sandbox.id,
                {clock_.UnixMillis(), std::move(kind), sandbox.reason, sandbox.message});
}

Result<std::vector<HistoryEvent>> Lifecycle::HistoryOf(const std::string& id) {
  if (!history_) return std::vector<HistoryEvent>();
  return history_->Find(id);
}

std::vector<std::string> Lifecycle::AddressesOf(const Sandbox& sandbox) const {
  if (sandbox.slot == 0) return {};
  const auto addresses = netpolicy::AddressesOf(config_.instance, sandbox.slot);
  return {addresses.ipv4, addresses.ipv6};
}

}  // namespace atl::sandbox
