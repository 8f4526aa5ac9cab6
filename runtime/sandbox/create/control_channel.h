// The daemon's end of a sandbox's control socket (wire/start.h): sends one start message and
// receives one report. Never blocks: execd may not exist yet when the message is written, and a
// sandbox may never read it.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/start.h"

namespace atl::sandbox {

class ControlChannel {
 public:
  // `socket` is the daemon's end.
  ControlChannel(Loop& loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel();

  // Writes at once what fits into the socket, and the rest as execd reads. kInvalidArgument: the
  // message is longer than kMaxStartFrame.
  Status Send(const wire::StartMessage& message);

  // Calls back once with the report, or with the reason why there is none (closed, malformed). The
  // callback may destroy the channel.
  using Reported = std::function<void(Result<wire::StartReport>)>;
  void Watch(Reported reported);

  // False: process 1 has ended. Send would not fail then; only the report would show the end.
  bool PeerIsThere() const;

  // Returns the report if it has already arrived. Use it when process 1 has ended, so no further
  // bytes can come.
  std::optional<wire::StartReport> Drain();

  // Call after the report: returns the socket for the output that follows, and puts output that has
  // already arrived into `received`. The channel cannot be used afterwards.
  UniqueFd TakeSocket(std::string* received);

 private:
  void Flush();
  // Registers for the pending events, if any.
  void Await();
  void OnEvents(uint32_t events);
  // Returns nullopt while the report is incomplete.
  std::optional<Result<wire::StartReport>> Read();

  Loop& loop_;
  UniqueFd socket_;
  std::string unsent_;
  wire::Frames received_{wire::kMaxReportFrame};
  Loop::Id watch_ = 0;  // 0: no events are awaited
  Reported reported_;   // null: nobody waits for a report
};

}  // namespace atl::sandbox
