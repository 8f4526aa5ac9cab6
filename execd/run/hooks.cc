#include "execd/run/hooks.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace atl::execd {
namespace {

// Longest wait, because the host's clock may be set meanwhile.
constexpr int64_t kLongestWaitSeconds = 3600;

Status StatusOf(const JobExit& exit) {
  if (exit.signal == 0 && exit.code == 0 && !exit.timed_out) return {};
  return Fail(Code::kInternal, exit.Describe());
}

}  // namespace

Result<std::unique_ptr<Job>> Hooks::Start(const wire::Hook& hook, Job::OnExit on_exit) {
  if (hook.argv.empty()) return Fail(Code::kInvalidArgument, "no program is named");
  SpawnSpec spec;
  spec.argv = hook.argv;
  spec.programs = PathCandidates(spec.argv[0], core_.env);
  spec.env = core_.env.entries();
  spec.identity = &core_.user;
  entrypoint_.GiveStdio(&spec);
  return Job::Start(&core_, std::move(spec), int64_t{hook.timeout_seconds} * 1'000'000,
                    std::move(on_exit));
}

void Hooks::RunFirst(wire::Hook hook, std::function<void(Status)> done) {
  auto named = [this, hook, done = std::move(done)](Status status) {
    // The hook's background processes go on, as after a line of a script.
    if (status) return done({});
    Complain(hook, status.error().message());
    done(Fail(std::move(status).error().Wrap(hook.name)));
  };
  auto job = Start(hook, [named](const JobExit& exit) { named(StatusOf(exit)); });
  if (!job) return named(Fail(std::move(job).error()));
  first_ = std::move(*job);
}

void Hooks::Schedule(std::vector<wire::Hook> hooks) {
  for (wire::Hook& hook : hooks) {
    auto schedule = atl::Schedule::Parse(hook.schedule);
    if (!schedule) {
      Complain(hook, schedule.error().message());
      continue;
    }
    periodic_.push_back(std::make_unique<Periodic>(Periodic{std::move(hook), *schedule, 0, {}}));
    Periodic* added = periodic_.back().get();
    added->due = added->schedule.After(::time(nullptr));
    Await(added);
  }
}

void Hooks::Await(Periodic* periodic) {
  const int64_t wait = std::clamp<int64_t>(periodic->due - ::time(nullptr), 0, kLongestWaitSeconds);
  core_.loop.After(wait * 1'000'000, [this, periodic] {
    if (entrypoint_.ended()) return;
    const int64_t now = ::time(nullptr);
    if (now >= periodic->due) {
      Run(periodic);
      periodic->due = periodic->schedule.After(now);
    } else {
      // The clock may have been set back.
      periodic->due = std::min(periodic->due, periodic->schedule.After(now));
    }
    Await(periodic);
  });
}

void Hooks::Run(Periodic* periodic) {
  if (periodic->job && periodic->job->running()) return;
  auto job = Start(periodic->hook, [this, periodic](const JobExit& exit) {
    if (const Status status = StatusOf(exit); !status) {
      Complain(periodic->hook, status.error().message());
    }
  });
  if (!job) return Complain(periodic->hook, job.error().message());
  periodic->job = std::move(*job);
}

void Hooks::Complain(const wire::Hook& hook, const std::string& what) {
  entrypoint_.Say("lifecycle hook " + hook.name + ": " + what + "\n");
}

}  // namespace atl::execd
