// One run of an isolated session: output as events of an exchange, the shell's report on descriptor
// 3, and its state as arguments.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/http/exchange.h"
#include "execd/run/output.h"
#include "execd/run/output_events.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// In as many arguments as execve's limit of one makes of it.
void AppendState(std::vector<std::string>* argv, std::string_view state);

class ShellRun {
 public:
  // A state that is longer is not kept: its report is void.
  static constexpr size_t kMaxReport = 1 << 20;

  ShellRun(EventLoop* loop, std::shared_ptr<Exchange> exchange, OutputForm form)
      : loop_(*loop), exchange_(std::move(exchange)), events_("stdout", form) {}
  ShellRun(const ShellRun&) = delete;
  ShellRun& operator=(const ShellRun&) = delete;

  // The ends are for the child.
  Status Open(UniqueFd* out_write, UniqueFd* report_write);
  // Reads no faster than the client does. `on_closed`: it has gone.
  void Follow(std::function<void()> on_closed);
  // The shell has ended: takes what it has said, and returns its report. One that does not end with
  // a NUL is void. Nothing is told of the exchange any more.
  std::string End();
  // Behind the last of the output, and `warning`. What the shell has left running writes to nobody.
  void Finish(std::string_view warning, std::string_view last_events);

 private:
  void OnOutput(std::string_view bytes);
  void OnReport(std::string_view bytes);

  EventLoop& loop_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<OutputPipe> out_, report_;
  OutputEvents events_;
  std::string batch_, reported_;
};

}  // namespace atl::execd
