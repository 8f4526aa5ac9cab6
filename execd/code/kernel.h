// One Jupyter kernel: its process, in a cgroup leaf of its own, and the connections to its sockets.
// A kernel is ready when it has answered a request and its iopub messages are known to arrive. A
// ready kernel executes one request at a time. Thread rule: the event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "execd/code/channel.h"
#include "execd/code/kernel_home.h"
#include "execd/code/kernel_message.h"
#include "execd/code/kernel_ports.h"
#include "execd/code/kernelspec.h"
#include "execd/code/zygote.h"
#include "execd/core/core.h"
#include "execd/run/job.h"
#include "execd/run/output.h"

namespace atl::execd {

class Kernel {
 public:
  // All callbacks are called from the loop. None may destroy the kernel.
  struct Callbacks {
    std::function<void()> on_ready;
    // Messages from the shell socket and from iopub. Their signature has been verified. They may
    // belong to any request, not only to the current one.
    std::function<void(const KernelMessage&)> on_reply, on_output;
    // An iopub message was too large or too complex to be read, and was skipped.
    std::function<void()> on_left_out;
    // A ready kernel's process, or a process that has inherited its streams, has written directly
    // to stdout or stderr. Kernels that forward such output as iopub messages are excepted. Null:
    // the output is discarded.
    std::function<void(bool is_error, std::string_view bytes)> on_written;
    // The kernel has exited or was killed. `reason` is one line. Called once, as the last callback.
    std::function<void(const std::string& reason)> on_end;
  };

  // Starts a kernel in `cwd`, with the environment and the user of commands. The zygote forks it,
  // if it makes kernels of this kind.
  static Result<std::unique_ptr<Kernel>> Start(Core* core, Zygote* zygote, const Kernelspec& spec,
                                               const std::string& cwd, Callbacks callbacks);
  // Returns the environment of commands with the additions of the kernelspec.
  static Environment EnvironmentFor(const Core& core, const Kernelspec& spec);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  // Kills every process in the leaf.
  ~Kernel();

  bool ready() const { return ready_; }
  // Sends an execute_request. Returns its id, which is the parent of all messages that belong to
  // it. Requires ready().
  std::string Execute(std::string_view code);
  // Runs `code` silently (not counted, not in the history, without output) and hands the kernel to
  // the owner of `callbacks`. The kernel is not ready until the code has run. If the code fails or
  // takes too long, the kernel ends. Requires ready().
  void Settle(std::string_view code, Callbacks callbacks);
  // See Job::Yields. Requires ready().
  void Yields(bool yields) { job_->Yields(yields); }
  // Interrupts the current request: SIGINT to the process group, or an interrupt_request, as the
  // kernelspec says.
  void Interrupt();
  // Kills every process in the leaf. on_end gets `reason`.
  void Kill(std::string reason);

  // Back-pressure for iopub and the two streams.
  void PauseOutput();
  void ResumeOutput();
  // Delivers the contents of both streams now.
  void DrainWritten();
  bool output_paused() const { return iopub_->paused(); }

 private:
  // Environment, streams and working directory of the process.
  struct Place {
    Environment env;
    UniqueFd null, directory, output, errors;
  };

  // `ports` is empty if the kernel supports the "ipc" transport.
  Kernel(Core* core, Zygote* zygote, KernelHome home, std::optional<KernelPorts> ports,
         std::string key, Callbacks callbacks);
  Status WriteConnectionFile(const std::string& key);
  // Returns the number of a port in the connection file. With "ipc" it is the number of a socket,
  // from 1.
  int NumberOf(KernelPorts::Port port) const;
  Result<Place> MakePlace(const Kernelspec& spec, const std::string& cwd);
  Status Fork(const Kernelspec& spec, const std::string& cwd);
  Status Spawn(const Kernelspec& spec, const std::string& cwd);
  void Runs(std::unique_ptr<Job> job);
  void OpenChannels();
  std::unique_ptr<Channel> Open(KernelPorts::Port port, std::string_view type,
                                std::string_view peer_type,
                                void (Kernel::*on_message)(ZmtpMessage));
  std::string Request(Channel* channel, std::string_view type, std::string_view content);
  std::string ExecuteRequest(std::string_view code, bool silent);
  void Settled(const KernelMessage& message);
  void Probe();
  void ProbeAfter(int64_t delay_us);
  void OnShell(ZmtpMessage message);
  void OnIopub(ZmtpMessage message);
  void OnControl(ZmtpMessage) {}  // replies to interrupts
  void CheckReady();
  void BecomeReady();
  void KillAfter(int64_t delay_us, std::string reason);
  void Written(bool is_error, std::string_view bytes);
  void Ended(const JobExit& exit);

  Core& core_;
  Zygote& zygote_;
  const KernelHome home_;
  std::optional<KernelPorts> ports_;
  MessageCodec codec_;
  Callbacks callbacks_;
  std::unique_ptr<OutputPipe> output_, errors_;  // a forked kernel has one pipe for both
  std::string tail_;                             // the end of what the process itself has written
  Zygote::Id birth_ = 0;                         // 0: not forked by the zygote, or already running
  std::unique_ptr<Job> job_;                     // null until the process exists
  std::unique_ptr<Channel> shell_, iopub_, control_;  // control_: null if it is not needed
  EventLoop::Id deadline_ = 0, probe_again_ = 0;
  std::string settling_;        // the request of Settle that is in flight; empty: none
  bool tells_written_ = false;  // the kernel also sends its stream output by iopub
  bool by_message_ = false, answered_ = false, heard_ = false, ready_ = false;
  std::string killed_because_;
};

}  // namespace atl::execd
