// One kernel: its process in a cgroup leaf of its own, and its sockets. It is ready when it has
// answered and its output is known to reach us; then it runs one request at a time.
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
  // Called from the loop. None may destroy the kernel.
  struct Callbacks {
    std::function<void()> on_ready;
    // From the shell socket, and from iopub. Signed by the kernel; of any request.
    std::function<void(const KernelMessage&)> on_reply, on_output;
    // A message of iopub was too large or too complex to be read.
    std::function<void()> on_left_out;
    // The kernel is ready, and its process, or one that has inherited its streams, has written to
    // stdout or stderr, which it does not tell itself. None: nobody asks.
    std::function<void(bool is_error, std::string_view bytes)> on_written;
    // It has ended, or was ended: why, in one line. Once, and nothing after it.
    std::function<void(const std::string& reason)> on_end;
  };

  // In `cwd`, with the environment and as the user of commands; forked by the zygote if that can
  // be.
  static Result<std::unique_ptr<Kernel>> Start(Core* core, Zygote* zygote, const Kernelspec& spec,
                                               const std::string& cwd, Callbacks callbacks);
  // That of commands, with what the kernelspec adds.
  static Environment EnvironmentFor(const Core& core, const Kernelspec& spec);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  // Everything in its leaf is killed.
  ~Kernel();

  bool ready() const { return ready_; }
  // Only when it is ready. Returns the request's id, the parent of all that belongs to it.
  std::string Execute(std::string_view code);
  // Only when it is ready. It is not until it has run this, unseen by its user: neither counted nor
  // kept, without output. From now on others hear of it. If it fails or takes long the kernel ends.
  void Settle(std::string_view code, Callbacks callbacks);
  // Only when it is ready; see Job::Yields.
  void Yields(bool yields) { job_->Yields(yields); }
  // SIGINT to its process group, or a message, as its kernelspec says.
  void Interrupt();
  // The whole leaf; on_end is given `reason`.
  void Kill(std::string reason);

  // Back-pressure for iopub and the streams.
  void PauseOutput();
  void ResumeOutput();
  // Tells at once what is in the streams.
  void DrainWritten();
  bool output_paused() const { return iopub_->paused(); }

 private:
  // What its process is to have.
  struct Place {
    Environment env;
    UniqueFd null, directory, output, errors;
  };

  // `ports`: none if it knows "ipc".
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
  std::unique_ptr<OutputPipe> output_, errors_;  // a zygote's has one for both
  std::string tail_;                             // the last of what the process itself has written
  Zygote::Id birth_ = 0;                         // 0: not from a zygote, or born
  std::unique_ptr<Job> job_;                     // null until it is born
  std::unique_ptr<Channel> shell_, iopub_, control_;  // control_: null if it is not needed
  EventLoop::Id deadline_ = 0, probe_again_ = 0;
  std::string settling_;        // the request that it is not ready before; empty: there is none
  bool tells_written_ = false;  // what has gone to its streams comes by iopub, too
  bool by_message_ = false, answered_ = false, heard_ = false, ready_ = false;
  std::string killed_because_;
};

}  // namespace atl::execd
