// A kernel that nobody has asked for yet: like those that were used last, forked by the zygote
// while the sandbox rests, with ipykernel's own start behind it, which takes most of the time that
// a context takes. Whoever claims it cannot tell it from a new one.
//
// It costs memory, which is the sandbox's, so there is one at most, none where little is left, and
// the kernel of the host takes it before all others. Thread rule: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "execd/code/kernel.h"
#include "execd/code/kernelspec.h"
#include "execd/code/zygote.h"
#include "execd/core/core.h"

namespace atl::execd {

class Spare {
 public:
  // Its kernels come from `zygote`, which lives longer.
  Spare(Core* core, Zygote* zygote) : core_(*core), zygote_(*zygote) {}
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare();

  // One like this will be of use: it is made when the sandbox rests. Kernels that do not come from
  // a zygote have none.
  void Want(const Kernelspec& spec);
  // The same, and `then`, once, from the loop: it can be claimed, or why there will be none.
  using Then = std::function<void(const Status&)>;
  void WantNow(const Kernelspec& spec, Then then);
  // The spare, if there is one of this kind; else null, and `callbacks` are as they were. It is
  // ready when it is in `cwd`; should it end before, start another: it says nothing about the
  // kernelspec.
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
  Kernelspec spec_;                      // of what is wanted
  std::vector<std::string> argv_, env_;  // of kernel_
  std::unique_ptr<Kernel> kernel_;
  bool parked_ = false;        // it can be claimed
  std::vector<Then> waiting_;  // for it to be parked
  EventLoop::Id look_ = 0;
  int64_t looked_us_ = 0, cpu_used_us_ = 0;  // then
};

}  // namespace atl::execd
