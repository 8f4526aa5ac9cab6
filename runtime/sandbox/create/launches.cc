#include "runtime/sandbox/create/launches.h"

#include <utility>

namespace atl::sandbox {
namespace {

// Limit, in bytes, of a sandbox's own text that is stored and shown.
constexpr size_t kMaxReportShown = 1024;
// Maximum wait for the output of a sandbox whose entrypoint cannot start, unless it ends by itself.
constexpr int64_t kLastOutputUs = 1'000'000;

}  // namespace

Launches::Launches(Loop& loop, EntrypointLogs& logs, Registry& registry, Machine& machine)
    : loop_(loop), logs_(logs), registry_(registry), machine_(machine) {
  registry_.OnRemove([this](const Sandbox& sandbox) {
    all_.erase(&sandbox);
    failures_.erase(&sandbox);
  });
}

void Launches::Add(const Sandbox& sandbox, std::shared_ptr<Launch> launch) {
  all_[&sandbox] = std::move(launch);
}

std::shared_ptr<Launch> Launches::Find(const Sandbox& sandbox) const {
  const auto found = all_.find(&sandbox);
  return found == all_.end() ? nullptr : found->second;
}

std::shared_ptr<Launch> Launches::Take(const Sandbox& sandbox) {
  const auto node = all_.extract(&sandbox);
  return node.empty() ? nullptr : std::move(node.mapped());
}

void Launches::Watch(const Sandbox& sandbox) {
  const auto launch = Find(sandbox);
  if (launch == nullptr) return;  // a client may have deleted it in its answer
  launch->Watch([this, host_id = HostId(sandbox)](const Result<wire::StartReport>& report) {
    Reported(host_id, report);
  });
}

void Launches::Reported(const std::string& host_id, const Result<wire::StartReport>& report) {
  Sandbox* const sandbox = registry_.ByHost(host_id);
  if (sandbox == nullptr) return;
  if (report && report->kind == wire::StartReport::Kind::kStarted) return FollowOutput(*sandbox);
  if (report && report->kind == wire::StartReport::Kind::kFailed) {
    // The output of a hook follows the report; execd exits once the daemon has read it.
    FollowOutput(*sandbox);
    failures_[sandbox] = report->message.substr(0, kMaxReportShown);
    loop_.After(kLastOutputUs, guard_([this, host_id] {
                  Sandbox* const late = registry_.ByHost(host_id);
                  if (late != nullptr && IsLive(late->state)) FailStart(*late);
                }));
    return;
  }
  // Nothing else comes on this socket; the exit that follows explains why.
  Take(*sandbox);
  logs_.Abandon(host_id);
}

bool Launches::EndByReport(Sandbox& sandbox) {
  const auto launch = Find(sandbox);
  const auto report = launch ? launch->Drain() : std::nullopt;
  if (report && report->kind == wire::StartReport::Kind::kFailed) {
    Reported(HostId(sandbox), *report);
  } else if (report) {
    FollowOutput(sandbox);
  }
  if (!failures_.contains(&sandbox)) return false;
  FailStart(sandbox);
  return true;
}

void Launches::FailStart(Sandbox& sandbox) {
  const auto failure = failures_.extract(&sandbox);
  if (failure.empty()) return;
  machine_.ApplyAnyway(
      sandbox, Event::kStartFailed,
      {"ENTRYPOINT_START_FAILED", "the entrypoint cannot be run: " + failure.mapped()});
}

void Launches::FollowOutput(const Sandbox& sandbox) {
  const std::shared_ptr<Launch> launch = Take(sandbox);
  std::string received;
  UniqueFd socket = launch->TakeSocket(&received);
  logs_.Follow(HostId(sandbox), std::move(socket), received);
}

void Launches::OnTransition(const Sandbox& sandbox, State before) {
  if (sandbox.state == State::kReplacing && before != State::kReplacing) failures_.erase(&sandbox);
}

}  // namespace atl::sandbox
