// One run of an isolated session: sends its output as events of an exchange, and reads the shell's
// report from descriptor 3.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "execd/http/exchange.h"
#include "execd/run/output.h"
#include "execd/run/output_events.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class ShellRun {
 public:
  // Limit on a report. A longer state is not kept: its report is discarded.
  static constexpr size_t kMaxReport = 4 << 20;

  ShellRun(EventLoop* loop, std::shared_ptr<Exchange> exchange, OutputForm form)
      : loop_(*loop), exchange_(std::move(exchange)), events_("stdout", form) {}
  ShellRun(const ShellRun&) = delete;
  ShellRun& operator=(const ShellRun&) = delete;

  // Opens the pipes. The write ends are for the child.
  Status Open(UniqueFd* out_write, UniqueFd* report_write);
  // Streams the output, no faster than the client reads. Calls `on_closed` when the client has
  // disconnected.
  void Follow(std::function<void()> on_closed);
  // Call when the shell has ended: reads the rest of its output and returns its report. Returns an
  // empty report if it does not end with a NUL. The callbacks of the exchange are dropped.
  std::string End();
  // True if the report was longer than kMaxReport.
  bool too_long() const { return too_long_; }
  // Appends `warning` and `last_events` after the last output and finishes the stream. Later output
  // of processes that the shell has left running is discarded.
  void Finish(std::string_view warning, std::string_view last_events);

 private:
  void OnOutput(std::string_view bytes);
  void OnReport(std::string_view bytes);

  EventLoop& loop_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<OutputPipe> out_, report_;
  OutputEvents events_;
  std::string batch_, reported_;
  bool too_long_ = false;
};

}  // namespace atl::execd
