// A spare kernel, started before a context asks for one. It has the kernelspec that was used last.
// The zygote forks it while the sandbox is idle. ipykernel has then already initialised, which is
// most of the time that a new context needs. To the client a spare looks like a new kernel.
//
// A spare costs memory of the sandbox. So at most one exists, none is made when little memory is
// left, and the OOM killer takes it first.
//
// Thread rule: the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "execd/code/kernel.h"
#include "execd/code/kernelspec.h"
#include "execd/code/zygote.h"
#include "execd/core/core.h"

namespace atl::execd {

class Spare {
 public:
  // Borrows both pointers; they must outlive the object.
  Spare(Core* core, Zygote* zygote) : core_(*core), zygote_(*zygote) {}
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare();

  // Asks for a spare of this kernelspec, made when the sandbox is idle. Ignored for kernels that do
  // not come from a zygote.
  void Want(const Kernelspec& spec);
  // Asks for a spare and does not wait until the sandbox is idle. Calls `then` once, from the loop,
  // with OK when the spare can be claimed, or with the error.
  using Then = std::function<void(const Status&)>;
  void WantNow(const Kernelspec& spec, Then then);
  // Returns the spare if it has this kernelspec and environment. Otherwise returns null and leaves
  // `callbacks` unchanged. The kernel becomes ready when it has changed to `cwd`. If it ends before
  // that, start another kernel: a lost spare does not mean that the kernelspec is broken.
  std::unique_ptr<Kernel> Claim(const Kernelspec& spec, const std::string& cwd,
                                Kernel::Callbacks* callbacks);

 private:
  void LookLater();
  void Look();
  Status Start();
  Kernel::Callbacks Awaiting(std::function<void()> on_ready);
  void Drop();
  void Tell(const Status& status);

  Core& core_;
  Zygote& zygote_;
  Kernelspec spec_;                      // wanted kernelspec
  std::vector<std::string> argv_, env_;  // command line and environment of kernel_
  std::unique_ptr<Kernel> kernel_;
  bool parked_ = false;        // kernel_ can be claimed
  std::vector<Then> waiting_;  // callbacks of WantNow
  EventLoop::Id look_ = 0;
  int64_t looked_us_ = 0;  // the last sample of Look
  std::optional<int64_t> cpu_used_us_;
};

}  // namespace atl::execd
