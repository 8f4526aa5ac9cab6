#include "execd/code/context.h"

#include <utility>

#include "execd/code/kernel_events.h"
#include "execd/run/events.h"
#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

// A kernel reports the end of a run on two sockets; the second report must arrive within this time.
constexpr int64_t kSecondWordUs = 2'000'000;
// Delay of an interrupt, because a kernel that has not started the run would lose it.
constexpr int64_t kBeginUs = 500'000;
// After a failed run, a kernel empties its queue and refuses other runs for a while; Node's for 200
// ms.
constexpr int64_t kOnceMoreUs = 20'000, kRefusesUs = 2'000'000;
// Interval of the search for a kernelspec. A shorter one is of no use, because programs that
// install kernels start an interpreter for each.
constexpr int64_t kLookAgainUs = 100'000;
// After an interrupt: the time until the kernel sends anything about the run, and until the run is
// over. After that the kernel counts as hung.
constexpr int64_t kHeardUs = 1'000'000, kStopUs = 10'000'000;

}  // namespace

Context::Context(Core* core, Zygote* zygote, Spare* spare, std::string language, std::string cwd)
    : core_(*core),
      zygote_(*zygote),
      spare_(*spare),
      id_(NewUuid(true)),
      language_(std::move(language)),
      cwd_(std::move(cwd)) {}

Context::~Context() {
  core_.loop.Cancel(look_again_);
  claimed_ = false;
  OnKernelEnd("the context was deleted");
}

Result<Kernelspec> Context::FindSpec() const {
  return FindKernelspec(language_, core_.CommandEnvironment(), core_.Home(), core_.user);
}

Status Context::StartKernel(const Kernelspec& spec, bool may_claim) {
  Kernel::Callbacks callbacks;
  callbacks.on_ready = [this] { Prepared({}); };
  callbacks.on_reply = [this](const KernelMessage& message) { OnReply(message); };
  callbacks.on_output = [this](const KernelMessage& message) { OnOutput(message); };
  callbacks.on_left_out = [this] { OnLeftOut(); };
  callbacks.on_written = [this](bool is_error, std::string_view bytes) {
    OnWritten(is_error, bytes);
  };
  callbacks.on_end = [this](const std::string& reason) { OnKernelEnd(reason); };
  if (may_claim) kernel_ = spare_.Claim(spec, cwd_, &callbacks);
  claimed_ = kernel_ != nullptr;
  if (!claimed_) {
    auto kernel = Kernel::Start(&core_, &zygote_, spec, cwd_, std::move(callbacks));
    if (!kernel) {
      return Fail(std::move(kernel).error().Wrap("kernel '" + spec.name + "' of " + language_));
    }
    kernel_ = std::move(*kernel);
  }
  spare_.Want(spec);
  return {};
}

void Context::StartAnew(bool may_claim) {
  const auto spec = FindSpec();
  const Status started = spec ? StartKernel(*spec, may_claim) : Fail(spec.error());
  if (!started) Prepared(started);
}

void Context::Prepare(Then then) {
  if (kernel_ && kernel_->ready()) return then({});
  if (!kernel_ && look_again_ == 0) {
    const auto spec = FindSpec();
    const Status started = spec ? StartKernel(*spec, true) : Fail(spec.error());
    if (!started && (spec || !AwaitKernelspec())) return then(started);
  }
  waiting_.push_back(std::move(then));
}

bool Context::AwaitKernelspec() {
  if (!KernelsMayCome(core_.env, core_.started_at)) return false;
  look_again_ = core_.loop.After(kLookAgainUs, [this] {
    look_again_ = 0;
    if (!FindSpec() && AwaitKernelspec()) return;
    StartAnew(true);
  });
  return true;
}

void Context::Prepared(const Status& status) {
  std::vector<Then> waiting;
  waiting.swap(waiting_);
  for (const Then& then : waiting) then(status);
}

void Context::Run(std::shared_ptr<Exchange> exchange, std::string code, OutputForm form) {
  exchange_ = std::move(exchange);
  code_ = std::move(code);
  request_.clear();
  reply_error_.clear();
  working_ = told_ = idle_ = replied_ = failed_ = interrupted_ = unanswered_ = false;
  Prepare([this, form](const Status& status) {
    if (status && !exchange_->closed()) return Begin(form);
    code_.clear();
    const auto answered = std::move(exchange_);
    if (!status) answered->RespondError(500, "RUNTIME_ERROR", status.error().message());
  });
}

void Context::Begin(OutputForm form) {
  form_ = form;
  written_.emplace("stdout", form);
  written_errors_.emplace("stderr", form);
  started_us_ = MonotonicMicros();
  const int64_t now = UnixMillis();
  exchange_->StartStream(200, EventStreamHeaders());
  AppendTextEvent(&batch_, "init", id_, now);
  AppendTextEvent(&batch_, "ping", "pong", now);
  if (!lost_.empty()) {
    AppendOutput(&batch_, "stderr",
                 "The kernel of this context has ended: " + lost_ +
                     "\nThis is a new one, without what the old one knew.\n",
                 form_, now);
    lost_.clear();
  }
  Write();
  request_ = kernel_->Execute(code_);
  ping_ = core_.loop.After(kEventPingUs, [this] { Ping(); });
  exchange_->OnWritable([this] {
    if (kernel_) kernel_->ResumeOutput();
  });
  // Nobody reads further output, and the context must stay usable for the next run.
  exchange_->OnClosed([this] {
    if (kernel_) kernel_->ResumeOutput();
    if (busy()) Interrupt();
  });
  if (interrupted_) Interrupt();
}

void Context::Ping() {
  AppendTextEvent(&batch_, "ping", "pong", UnixMillis());
  Write();
  ping_ = core_.loop.After(kEventPingUs, [this] { Ping(); });
}

void Context::Write() {
  exchange_->Write(batch_);
  batch_.clear();
  if (batch_.capacity() > (64 << 10)) batch_.shrink_to_fit();
  if (kernel_ && exchange_->backlog() > Exchange::kHighWater) kernel_->PauseOutput();
}

// Messages of other runs are discarded: of a run whose client has disconnected, or of a thread that
// an earlier run has left behind.
void Context::OnOutput(const KernelMessage& message) {
  if (!busy() || request_.empty() || message.parent != request_) return;
  output_since_ = true;
  Answered();
  told_ = told_ || (message.type != "status" && message.type != "execute_input");
  if (!working_ && message.type != "status") {
    working_ = true;
    if (interrupted_) InterruptNow();
  }
  if (message.type == "status") {
    if (message.content.root().Find("execution_state").text() != "idle") return;
    idle_ = true;
    return FinishSoon();
  }
  failed_ = failed_ || message.type == "error";
  AppendKernelEvents(&batch_, message, form_, UnixMillis());
  if (!batch_.empty()) Write();
}

void Context::OnReply(const KernelMessage& message) {
  if (!busy() || request_.empty() || message.parent != request_) return;
  if (message.type != "execute_reply") return;
  Answered();
  const JsonValue content = message.content.root();
  const std::string_view status = content.Find("status").text();
  // Bash's kernel reports the same status for an interrupted run.
  if (status.starts_with("abort") && !told_ && !interrupted_ && interrupt_ == 0 &&
      MonotonicMicros() - started_us_ < kRefusesUs) {
    return RunLater();
  }
  replied_ = true;
  if (status != "ok") {
    // Some kernels report an error only here, and so do all for a run that they have not started.
    AppendKernelError(&reply_error_, content, UnixMillis());
  }
  FinishSoon();
}

// The kernel has not started the run.
void Context::RunLater() {
  core_.loop.Cancel(finish_);
  finish_ = 0;
  working_ = idle_ = false;
  request_.clear();
  once_more_ = core_.loop.After(kOnceMoreUs, [this] {
    once_more_ = 0;
    request_ = kernel_->Execute(code_);
    if (interrupted_) Interrupt();
  });
}

void Context::OnLeftOut() {
  if (!busy() || request_.empty()) return;
  AppendOutput(&batch_, "stderr",
               "A message of the kernel was left out: it is larger than 32 MiB, or has more than "
               "524288 values.\n",
               form_, UnixMillis());
  Write();
}

void Context::OnWritten(bool is_error, std::string_view bytes) {
  if (!busy() || request_.empty() || exchange_->closed()) return;
  // This does not put the end of the run off: a process that a former run left may write for ever.
  (is_error ? written_errors_ : written_)->Append(bytes, UnixMillis(), &batch_);
  if (!batch_.empty()) Write();
}

void Context::EndWritten() {
  for (auto* written : {&written_, &written_errors_}) {
    if (*written) (*written)->End(UnixMillis(), &batch_);
    written->reset();
  }
}

void Context::FinishSoon() {
  if (idle_ && replied_) return Complete();
  if (finish_ != 0) return;
  output_since_ = false;
  finish_ = core_.loop.After(kSecondWordUs, [this] {
    finish_ = 0;
    if (output_since_ || kernel_->output_paused()) return FinishSoon();
    Complete();
  });
}

void Context::Complete() {
  // The run may have waited for a process that wrote this before the kernel reported the end.
  kernel_->DrainWritten();
  EndWritten();
  if (!failed_) batch_.append(reply_error_);
  AppendCompleteEvent(&batch_, (MonotonicMicros() - started_us_) / 1000, UnixMillis());
  Finish();
}

void Context::Finish() {
  code_.clear();
  for (EventLoop::Id* timer : {&ping_, &finish_, &interrupt_, &once_more_}) {
    core_.loop.Cancel(*timer);
    *timer = 0;
  }
  exchange_->OnWritable(nullptr);
  exchange_->OnClosed(nullptr);
  Write();
  if (kernel_) kernel_->ResumeOutput();
  // Cleared first, because its connection may deliver the next request at once.
  const auto finished = std::move(exchange_);
  finished->Finish();
}

void Context::Interrupt() {
  interrupted_ = true;
  if (request_.empty()) return;  // sent with the run
  if (working_) return InterruptNow();
  core_.loop.Cancel(interrupt_);
  interrupt_ = core_.loop.After(kBeginUs, [this] { InterruptNow(); });
}

void Context::InterruptNow() {
  interrupted_ = false;
  kernel_->Interrupt();
  unanswered_ = true;
  KillAfter(kHeardUs, "it did not answer an interrupt within 1 s and was killed");
}

void Context::Answered() {
  if (!std::exchange(unanswered_, false)) return;
  KillAfter(kStopUs, "it did not stop within 10 s of an interrupt and was killed");
}

void Context::KillAfter(int64_t us, const char* why) {
  core_.loop.Cancel(interrupt_);
  interrupt_ = core_.loop.After(us, [this, why] {
    interrupt_ = 0;
    kernel_->Kill(why);
  });
}

void Context::OnKernelEnd(const std::string& reason) {
  const bool started = kernel_ && kernel_->ready();
  // Destroyed after this turn, because the kernel may be the caller.
  if (kernel_) core_.loop.Post([kernel = std::shared_ptr<Kernel>(std::move(kernel_))] {});
  kernel_ = nullptr;
  if (!started && std::exchange(claimed_, false)) return StartAnew(false);
  if (!started) return Prepared(Fail(Code::kUnavailable, reason));
  if (!busy()) {
    lost_ = reason;
    return;
  }
  EndWritten();
  AppendErrorEvent(&batch_, "KernelDied", reason, UnixMillis());
  Finish();
}

}  // namespace atl::execd
