#include "runtime/spawner/root/volume_work.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/root/volume_sources.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {
namespace {

using wire::Step;

constexpr int64_t kPatienceUs = 10 * 1000 * 1000;
// Most killed processes for one allowed directory that did not end.
constexpr int kMostStuck = 2;
constexpr size_t kMostRuns = 64;
constexpr size_t kMaxTold = 16 << 10;

// A RootReport for the pipe.
struct Told {
  bool done = false;
  wire::Failed failed;
  Step step = Step::kVolumes;
  wire::StepMicros micros{};

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.done, self.failed);
    io.Enum(self.step, Step::kCgroup, Step::kCount);
    io(self.micros);
  }
};

RootReport Failure(Code code, std::string message) {
  RootReport report;
  report.status = Fail(code, std::move(message));
  report.step = Step::kVolumes;
  return report;
}

std::string Quoted(const std::set<std::string>& places) {
  std::string text;
  for (const std::string& place : places) {
    text.append(text.empty() ? "'" : " or '").append(place).append("'");
  }
  return text;
}

}  // namespace

void VolumeWork::Start(std::string sandbox, const std::vector<wire::Volume>& volumes,
                       std::vector<int> keep, const Work& work, Done done) {
  Run run;
  for (const wire::Volume& volume : volumes) {
    if (volume.kind != wire::Volume::Kind::kHost) continue;
    // A volume that is not allowed opens nothing.
    if (const auto* place = AllowedAbove(host_.config.host_paths, volume.source)) {
      run.places.insert(*place);
    }
  }
  for (const std::string& place : run.places) {
    const auto stuck = std::count_if(runs_.begin(), runs_.end(), [&](const auto& other) {
      return !other.second.done && other.second.places.contains(place);
    });
    if (stuck >= kMostStuck) {
      return done(
          Failure(Code::kUnavailable, "the file system of the allowed directory '" + place +
                                          "', or one mounted beneath it, has stopped answering"));
    }
  }
  if (runs_.size() >= kMostRuns) {
    return done(Failure(Code::kUnavailable, "too many volumes are being opened, try again"));
  }
  auto pipe = sys::MakePipe();
  if (!pipe) return done(Failure(pipe.error().code(), pipe.error().message()));
  const int report = pipe->write.get();
  const std::vector<int> host = host_.Descriptors();
  keep.insert(keep.end(), host.begin(), host.end());
  keep.push_back(report);
  const auto pid = StartWorker({.name = "atoll-volume"}, std::move(keep), [&] {
    const RootReport root = work();
    Told told{.done = root.status.has_value(), .failed = {}, .step = root.step};
    told.micros = root.micros;
    if (!root.status) {
      told.failed = wire::Failed::Of(root.status.error());
      told.failed.message.resize(std::min(told.failed.message.size(), kMaxTold / 2));
    }
    [[maybe_unused]] const Status written = sys::WriteAll(report, wire::EncodeFields(told));
  });
  if (!pid) return done(Failure(pid.error().code(), pid.error().message()));
  ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  run.sandbox = std::move(sandbox);
  run.report = std::move(pipe->read);
  run.done = std::move(done);
  run.patience = loop_.After(kPatienceUs, [this, child = *pid] {
    Run& late = runs_.at(child);
    late.patience = 0;
    ::kill(child, SIGKILL);
    const std::string what =
        late.places.empty() ? "the store" : "the file system of " + Quoted(late.places);
    std::exchange(late.done, nullptr)(Failure(
        Code::kUnavailable, what + ", or one mounted beneath it, has not answered for 10 seconds"));
  });
  runs_[*pid] = std::move(run);
}

void VolumeWork::Cancel(const std::string& sandbox) {
  for (const auto& [pid, run] : runs_) {
    if (run.sandbox == sandbox) ::kill(pid, SIGKILL);
  }
}

void VolumeWork::Abandon() {
  for (auto& [pid, run] : runs_) {
    ::kill(pid, SIGKILL);
    run.done = nullptr;
  }
}

bool VolumeWork::OnChildExit(pid_t pid) {
  auto found = runs_.extract(pid);
  if (!found) return false;
  const Run run = std::move(found.mapped());
  if (run.patience != 0) loop_.Cancel(run.patience);
  if (!run.done) return true;
  const auto bytes = sys::ReadAll(run.report.get(), kMaxTold);
  Told told;
  if (!bytes || !wire::DecodeFields(*bytes, &told)) {
    run.done(Failure(Code::kInternal, "atoll-volume, which opens volumes, was ended"));
    return true;
  }
  RootReport report;
  report.status = told.done ? Status() : Fail(told.failed.error());
  report.step = told.step;
  report.micros = told.micros;
  run.done(report);
  return true;
}

}  // namespace atl::spawner
