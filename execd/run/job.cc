#include "execd/run/job.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>

#include "execd/run/metrics.h"
#include "runtime/base/signal_word.h"

namespace atl::execd {
namespace {

constexpr int64_t kGraceUs = 3'000'000;
// Bound on the memory that execve uses besides its arguments before it frees the old memory: page
// tables, a stack, and what the kernel charges in advance on each CPU.
constexpr int64_t kExecBytes = 2 << 20;

int64_t TextBytes(const SpawnSpec& spec) {
  size_t bytes = 0;
  for (const auto* texts : {&spec.argv, &spec.env}) {
    for (const std::string& text : *texts) bytes += text.size() + 1;
  }
  return static_cast<int64_t>(bytes);
}

constexpr std::string_view kLostToMemory =
    "out of memory: a process of the sandbox was killed while this ran";

// Not strsignal(), which would add the C library's message tables and locale.
std::string SignalText(int signal) {
  for (const SignalWord& known : kSignalWords) {
    if (known.number == signal) return known.word;
  }
  return "signal " + std::to_string(signal);
}

}  // namespace

std::string JobExit::Describe() const {
  std::string text;
  if (signal == 0) {
    text = "exit status " + std::to_string(code);
  } else {
    text = "signal: " + SignalText(signal);
  }
  if (timed_out) text += " (timeout)";
  if (out_of_memory) {
    text += " (out of memory: the command went over the sandbox's memory limit and was ended)";
  }
  if (lost_to_memory) text += " (" + std::string(kLostToMemory) + ")";
  if (fork_refused) {
    text += " (the sandbox's limit of processes was reached: one could not be started)";
  }
  return text;
}

std::string_view JobExit::Warning() const {
  return lost_to_memory ? kLostToMemory : std::string_view();
}

Job::Job(Core* core, OnExit on_exit)
    : core_(*core), on_exit_(std::move(on_exit)), leaf_(core->leaves.Take()) {
  CountFromHere();
}

void Job::CountFromHere() {
  oom_kills_before_ = core_.accounts.Count(LimitEvent::kOomKill);
  core_.Note(LimitEvent::kForkRefused);
  forks_refused_before_ = core_.Noted(LimitEvent::kForkRefused);
}

void Job::Runs(pid_t pid) {
  pid_ = pid;
  core_.ExpectExit(pid, [this](int wait_status) { Ended(wait_status); });
}

tl::unexpected<Error> Job::GiveUp(Error why) {
  running_ = false;
  core_.leaves.Return(std::move(leaf_));
  if (why.error_number() == EAGAIN) {
    why = std::move(why).Wrap("the sandbox has as many processes as its limit allows");
  }
  return Fail(std::move(why));
}

Result<std::unique_ptr<Job>> Job::Start(Core* core, SpawnSpec spec, int64_t timeout_us,
                                        OnExit on_exit) {
  std::unique_ptr<Job> job(new Job(core, std::move(on_exit)));
  spec.leaf = job->leaf_.get();
  spec.tasks = core->tasks_fds;
  spec.pass = core->pass;
  spec.score = core->score_fd;
  spec.own_memory = MemoryRoom(*core) < kExecBytes + TextBytes(spec);
  spec.cpus = static_cast<int>(std::ceil(CpuLimit(*core)));
  auto pid = Spawn(spec);
  if (!pid) return job->GiveUp(std::move(pid).error());
  job->Runs(*pid);
  if (timeout_us > 0) {
    job->timeout_ = core->loop.After(timeout_us, [raw = job.get()] {
      raw->timed_out_ = true;
      raw->Kill();
    });
  }
  return job;
}

Result<std::unique_ptr<Job>> Job::Adopt(Core* core, pid_t pid, OnExit on_exit) {
  std::unique_ptr<Job> job(new Job(core, std::move(on_exit)));
  if (job->leaf_) {
    if (Status moved = LeafPool::Move(*job->leaf_, pid); !moved) {
      return job->GiveUp(std::move(moved).error());
    }
  }
  job->Runs(pid);
  return job;
}

Job::~Job() {
  if (!running_) return;
  Kill();
  core_.loop.Cancel(timeout_);
  core_.loop.Cancel(grace_);
  // The process must still be reaped, but its exit has no receiver.
  auto leaf = std::make_shared<std::unique_ptr<Leaf>>(std::move(leaf_));
  Core* core = &core_;
  core_.ExpectExit(pid_, [leaf, core](int) { core->leaves.Return(std::move(*leaf)); });
}

void Job::Signal(int signal) {
  // The group id is the child's pid, which the kernel does not reuse before the child is reaped.
  if (running_) ::kill(-pid_, signal);
}

void Job::Interrupt() {
  if (!running_ || grace_ != 0) return;
  killed_ = true;
  Signal(SIGTERM);
  grace_ = core_.loop.After(kGraceUs, [this] { Kill(); });
}

void Job::Kill() {
  if (!running_) return;
  killed_ = true;
  if (leaf_) {
    LeafPool::Kill(leaf_.get());
  }
  // Without a leaf, this kills at least the process group. With a leaf, it is harmless.
  Signal(SIGKILL);
}

void Job::TellOfLimits(JobExit* exit) {
  // A hybrid host counts all commands together; no better count exists.
  const auto kills = core_.accounts.Count(LimitEvent::kOomKill);
  const bool leaf_killed = LeafPool::OutOfMemory(*leaf_);
  if (leaf_killed || kills > oom_kills_before_) {
    // A shell whose child was killed by the OOM killer exits with 137. With oom.group the shell
    // itself is killed.
    const bool ended = exit->signal == SIGKILL || exit->code == 128 + SIGKILL;
    (ended ? exit->out_of_memory : exit->lost_to_memory) = true;
  }
  int64_t& noted = core_.Noted(LimitEvent::kOomKill);
  const int64_t known = std::max(oom_kills_before_, noted);
  if (yields_ && exit->out_of_memory) {
    // This end accounts for one kill of the count; the others are not reported yet.
    noted = std::min(core_.Count(LimitEvent::kOomKill), known + 1);
  } else if (leaf_killed || kills > known) {
    // Reported even if the program has continued without its child.
    core_.Note(LimitEvent::kOomKill);
  }
  // Nothing else reports it on a hybrid host.
  core_.Note(LimitEvent::kForkRefused);
  exit->fork_refused =
      exit->code != 0 && core_.Noted(LimitEvent::kForkRefused) > forks_refused_before_;
}

void Job::BeginPart() {
  if (leaf_) leaf_->oom_kills_before = LeafPool::OomKillsIn(leaf_->dir.get());
  CountFromHere();
}

JobExit Job::EndPart(int code) {
  JobExit exit;
  exit.code = code;
  if (leaf_) TellOfLimits(&exit);
  return exit;
}

std::unique_ptr<Leaf> Job::LeaveOthers() {
  if (!leaf_ || !running_ || !LeafPool::HasSeveral(*leaf_)) return nullptr;
  std::unique_ptr<Leaf> fresh = core_.leaves.Take();
  if (!fresh) return nullptr;
  if (!LeafPool::Move(*fresh, pid_)) {
    core_.leaves.Return(std::move(fresh));
    return nullptr;
  }
  std::swap(fresh, leaf_);
  return fresh;
}

void Job::Ended(int wait_status) {
  running_ = false;
  core_.loop.Cancel(timeout_);
  core_.loop.Cancel(grace_);
  JobExit exit;
  exit.timed_out = timed_out_;
  if (WIFSIGNALED(wait_status)) {
    exit.code = -1;
    exit.signal = WTERMSIG(wait_status);
  } else {
    exit.code = WEXITSTATUS(wait_status);
  }
  if (leaf_) {
    TellOfLimits(&exit);
    // The OOM killer kills the whole command on v2 (memory.oom.group). On v1 it kills one process.
    // The other processes of the command would continue to allocate, and the OOM killer would then
    // kill other commands.
    if (killed_ || exit.out_of_memory) LeafPool::Kill(leaf_.get());
  } else if (killed_) {
    ::kill(-pid_, SIGKILL);
  }
  // The receiver of the exit is called before the leaf is returned. The call may destroy this job.
  const auto leaf = std::make_shared<std::unique_ptr<Leaf>>(std::move(leaf_));
  Core* const core = &core_;
  OnExit on_exit = std::move(on_exit_);
  const auto take = std::move(take_leaf_);
  on_exit(exit);
  if (take) return take(std::move(*leaf));
  core->loop.Post([core, leaf] { core->leaves.Return(std::move(*leaf)); });
}

}  // namespace atl::execd
