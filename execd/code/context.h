// A code context: a language, a directory, and the kernel that keeps its state. It executes one run
// at a time. If its kernel has died, the next run starts another one, and the stream of that run
// tells the client so.
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
  // Takes its kernels from `spare` or `zygote`, or starts them itself. All pointers are borrowed
  // and must outlive the context.
  Context(Core* core, Zygote* zygote, Spare* spare, std::string language, std::string cwd);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  // Kills the kernel. The stream of a run in progress gets an error.
  ~Context();

  const std::string& id() const { return id_; }
  const std::string& language() const { return language_; }
  const std::string& cwd() const { return cwd_; }
  bool busy() const { return exchange_ != nullptr; }

  // Prepares a kernel. Calls `then` once, from the loop or before this returns, with OK when the
  // kernel is ready, or with the error.
  using Then = std::function<void(const Status&)>;
  void Prepare(Then then);
  // Runs `code` and streams its events to the exchange. Requires !busy().
  void Run(std::shared_ptr<Exchange> exchange, std::string code, OutputForm form);
  // Interrupts the run that is in progress or waiting for its kernel. Requires busy().
  void Interrupt();

 private:
  // Returns the kernelspec for the language. kNotFound: the image has none.
  Result<Kernelspec> FindSpec() const;
  // Starts a kernel. `may_claim` allows the spare to be used; it is false after a spare was lost,
  // because the reason why one spare hangs may also make the next one hang.
  Status StartKernel(const Kernelspec& spec, bool may_claim);
  // Looks for a kernelspec and starts its kernel. If there is none, or the start fails, calls
  // Prepared with the error.
  void StartAnew(bool may_claim);
  // Waits for a kernelspec that the entrypoint may still install. Returns false if none will come.
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
  // Sends what batch_ holds and ends the stream.
  void Finish();
  void Ping();
  void Write();

  Core& core_;
  Zygote& zygote_;
  Spare& spare_;
  const std::string id_, language_, cwd_;
  std::unique_ptr<Kernel> kernel_;
  bool claimed_ = false;          // kernel_ was a spare
  std::vector<Then> waiting_;     // callbacks that wait until the kernel is ready
  std::string lost_;              // why the last kernel ended, if no client has been told
  EventLoop::Id look_again_ = 0;  // timer: looks again for a missing kernelspec

  // State of the current run.
  std::shared_ptr<Exchange> exchange_;  // null: no run
  std::string request_;                 // id of the request; empty: not sent yet
  std::string code_, batch_, reply_error_;
  OutputForm form_ = OutputForm::kText;
  // Output that the kernel's process and its children write directly to stdout and stderr. Set
  // while a run is in progress.
  std::optional<OutputEvents> written_, written_errors_;
  int64_t started_us_ = 0;
  EventLoop::Id ping_ = 0, finish_ = 0, interrupt_ = 0, once_more_ = 0;
  bool working_ = false;  // the kernel has started the run
  bool told_ = false;     // the kernel has sent output or a result of the run
  bool idle_ = false, replied_ = false, failed_ = false;
  bool interrupted_ = false, output_since_ = false;
  bool unanswered_ = false;  // the kernel has sent nothing since it was interrupted
};

}  // namespace atl::execd
