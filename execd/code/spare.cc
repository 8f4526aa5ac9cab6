#include "execd/code/spare.h"

#include <string_view>
#include <utility>

#include "execd/http/json.h"
#include "execd/run/metrics.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/wire/start.h"

namespace atl::execd {
namespace {

// The sandbox is idle if it has used less than this share of a CPU for this time. The time is
// longer than the zygote's own wait (REST_SECONDS), so that the zygote has imported its modules
// before a spare is forked.
constexpr int64_t kRestUs = 700'000;
constexpr int64_t kRestShare = 10;
// Memory that must be free for a spare. The spare itself uses 20 MiB; the rest is left to programs.
constexpr int64_t kSpareRoom = 256 << 20;

// Python that the spare runs, with `score`. Its process name identifies it as a spare.
constexpr std::string_view kPark = R"(
for file, text in ('comm', 'kernel-spare'), ('oom_score_adj', score):
    with open('/proc/self/' + file, 'w') as out:
        out.write(text)
)";
// Python that a claimed spare runs, with `score` and `cwd`. Undoes what the kernel knows of its
// start. IPython keeps its directories.
constexpr std::string_view kClaim = R"(
import os, sys
from IPython import get_ipython
os.chdir(cwd)
shell = get_ipython()
shell.starting_dir = os.getcwd()
seen = shell.user_ns['_dh']
seen[:] = [type(seen[0])(os.getcwd())]
for file, text in ('comm', os.path.basename(sys.executable)), ('oom_score_adj', score):
    with open('/proc/self/' + file, 'w') as out:
        out.write(text)
)";
// The OOM killer takes a process with this score first.
constexpr std::string_view kParkedScore = "1000";

// Returns an expression whose value is None and that defines no name.
std::string Unseen(std::string_view program, std::string_view score, std::string_view cwd) {
  std::string code = "exec(";
  AppendJsonString(&code, program);
  code.append(", {'score': ");
  AppendJsonString(&code, score);
  code.append(", 'cwd': ");
  AppendJsonString(&code, cwd);
  return code.append("})");
}

}  // namespace

Spare::~Spare() {
  core_.loop.Cancel(look_);
}

void Spare::Want(const Kernelspec& spec) {
  if (!Zygote::Makes(spec)) return;
  spec_ = spec;
  LookLater();
}

void Spare::WantNow(const Kernelspec& spec, Then then) {
  waiting_.push_back(std::move(then));
  Want(spec);
}

void Spare::LookLater() {
  core_.loop.Cancel(look_);
  looked_us_ = MonotonicMicros();
  cpu_used_us_ = CpuUsed(core_);
  look_ = core_.loop.After(kRestUs, [this] { Look(); });
}

void Spare::Look() {
  const Environment env = Kernel::EnvironmentFor(core_, spec_);
  if (kernel_ && spec_.argv == argv_ && env.entries() == env_) {
    if (parked_) Tell({});
    return;
  }
  Drop();
  // A sandbox whose CPU time is unknown does not count as resting.
  const auto used = CpuUsed(core_);
  if (!used || !cpu_used_us_ ||
      (*used - *cpu_used_us_) * kRestShare > MonotonicMicros() - looked_us_) {
    return LookLater();
  }
  if (MemoryRoom(core_) < kSpareRoom) {
    return Tell(Fail(Code::kResourceExhausted,
                     "less than 256 MiB of the sandbox's memory are left for a spare kernel"));
  }
  if (Status there = zygote_.Prepare(spec_, env); !there) return Tell(there);
  argv_ = spec_.argv;
  env_ = env.entries();
  const Status started = Start();
  if (started) return;
  LogLine(LogLevel::kWarning, "no spare kernel").Add(started.error());
  Tell(started);
}

Status Spare::Start() {
  auto kernel = Kernel::Start(&core_, &zygote_, spec_, core_.cwd, Awaiting([this] {
    kernel_->Yields(true);
    kernel_->Settle(Unseen(kPark, kParkedScore, ""), Awaiting([this] {
                      parked_ = true;
                      Tell({});
                    }));
  }));
  if (!kernel) return Fail(std::move(kernel).error());
  kernel_ = std::move(*kernel);
  return {};
}

Kernel::Callbacks Spare::Awaiting(std::function<void()> on_ready) {
  Kernel::Callbacks callbacks;
  callbacks.on_ready = std::move(on_ready);
  callbacks.on_reply = callbacks.on_output = [](const KernelMessage&) {};
  callbacks.on_left_out = [] {};
  // The next context makes another spare. It is not replaced now, because the same cause would end
  // the next spare, too.
  callbacks.on_end = [this](const std::string& reason) {
    Drop();
    Tell(Fail(Code::kUnavailable, reason));
  };
  return callbacks;
}

void Spare::Tell(const Status& status) {
  for (const Then& then : std::exchange(waiting_, {})) then(status);
}

// Destroyed after this turn, because the kernel may be the caller.
void Spare::Drop() {
  parked_ = false;
  if (kernel_) core_.loop.Post([kernel = std::shared_ptr<Kernel>(std::move(kernel_))] {});
  kernel_ = nullptr;
}

std::unique_ptr<Kernel> Spare::Claim(const Kernelspec& spec, const std::string& cwd,
                                     Kernel::Callbacks* callbacks) {
  if (!parked_ || spec.argv != argv_) return nullptr;
  if (Kernel::EnvironmentFor(core_, spec).entries() != env_) return nullptr;
  // Returns null, so that the ordinary start of a kernel reports the error.
  if (!OpenDirectory(cwd, core_.user)) return nullptr;
  parked_ = false;
  kernel_->Yields(false);
  kernel_->Settle(Unseen(kClaim, wire::kOomScore, cwd), std::move(*callbacks));
  return std::move(kernel_);
}

}  // namespace atl::execd
