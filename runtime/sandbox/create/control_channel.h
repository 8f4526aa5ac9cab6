// The daemon's end of a sandbox's control socket (wire/start.h): one start message out, one report
// back. Never blocks: execd may not exist yet when the message is written, and a sandbox may never
// read it.
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

  // Writes what fits, at once; the rest as execd reads. A message over kMaxStartFrame is
  // kInvalidArgument.
  Status Send(const wire::StartMessage& message);

  // Calls back once with the report, or with why there is none (closed, malformed). The callback
  // may destroy the channel.
  using Reported = std::function<void(Result<wire::StartReport>)>;
  void Watch(Reported reported);

  // False: process 1 has ended, and Send would only say so with the report.
  bool PeerIsThere() const;

  // The report, if it has arrived by now: for when process 1 has ended and nothing more comes.
  std::optional<wire::StartReport> Drain();

  // After the report: the socket, for what comes behind it, and what of that is there already. The
  // channel is of no more use.
  UniqueFd TakeSocket(std::string* received);

 private:
  void Flush();
  // Waits for what there is to wait for.
  void Await();
  void OnEvents(uint32_t events);
  // nullopt: not all of it is there yet.
  std::optional<Result<wire::StartReport>> Read();

  Loop& loop_;
  UniqueFd socket_;
  std::string unsent_;
  wire::Frames received_{wire::kMaxReportFrame};
  Loop::Id watch_ = 0;  // 0: nothing is waited for
  Reported reported_;   // null: nobody waits for a report
};

}  // namespace atl::sandbox
