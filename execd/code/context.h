// A code context: a language, a directory, and the kernel that keeps its state. One run at a time.
// A kernel that has died is replaced by the next run; whoever runs then is told.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "execd/code/kernel.h"
#include "execd/code/spare.h"
#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/run/output_events.h"

namespace atl::execd {

class Context {
 public:
  // Its kernels may be `spare`, or come from `zygote`, which both live longer.
  Context(Core* core, Zygote* zygote, Spare* spare, std::string language, std::string cwd);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  // The kernel is killed; a run is told so.
  ~Context();

  const std::string& id() const { return id_; }
  const std::string& language() const { return language_; }
  const std::string& cwd() const { return cwd_; }
  bool busy() const { return exchange_ != nullptr; }

  // Calls `then` once, from the loop or at once: its kernel is ready, or why there is none.
  using Then = std::function<void(const Status&)>;
  void Prepare(Then then);
  // Answers the exchange. Only if it is not busy.
  void Run(std::shared_ptr<Exchange> exchange, std::string code, OutputForm form);
  // What runs now, or is about to. Only if it is busy.
  void Interrupt();

 private:
  // kNotFound: no kernel of the image's knows the language.
  Result<Kernelspec> FindSpec() const;
  // `may_claim`: the spare, unless one was lost: what hangs one may hang the next.
  Status StartKernel(const Kernelspec& spec, bool may_claim);
  // If it has a kernelspec; Prepared if not, or if it does not start.
  void StartAnew(bool may_claim);
  // False: there will be none.
  bool AwaitKernelspec();
  void Prepared(const Status& status);
  void Begin(OutputForm form);
  void OnOutput(const KernelMessage& message);
  void OnReply(const KernelMessage& message);
  void RunLater();
  void OnLeftOut();
  void OnWritten(bool is_error, std::string_view bytes);
  void EndWritten();
  void OnKernelEnd(const std::string& reason);
  void InterruptNow();
  void Answered();
  void KillAfter(int64_t us, const char* why);
  void FinishSoon();
  void Complete();
  // The stream ends, with what batch_ holds.
  void Finish();
  void Ping();
  void Write();

  Core& core_;
  Zygote& zygote_;
  Spare& spare_;
  const std::string id_, language_, cwd_;
  std::unique_ptr<Kernel> kernel_;
  bool claimed_ = false;          // it was a spare
  std::vector<Then> waiting_;     // for the kernel to be ready
  std::string lost_;              // why the last kernel ended, if nobody has been told
  EventLoop::Id look_again_ = 0;  // for a kernelspec that may yet come

  // Of the present run.
  std::shared_ptr<Exchange> exchange_;  // null: not busy
  std::string request_;                 // empty: not sent yet
  std::string code_, batch_, reply_error_;
  OutputForm form_ = OutputForm::kText;
  // What the kernel's process and its children have written themselves; there since the run began.
  std::optional<OutputEvents> written_, written_errors_;
  int64_t started_us_ = 0;
  EventLoop::Id ping_ = 0, finish_ = 0, interrupt_ = 0, once_more_ = 0;
  bool working_ = false;  // the kernel has begun with it
  bool told_ = false;     // and has said something of it
  bool idle_ = false, replied_ = false, failed_ = false;
  bool interrupted_ = false, output_since_ = false;
  bool unanswered_ = false;  // since the kernel was interrupted nothing has come from it
};

}  // namespace atl::execd
