// One direction of a connection: what one socket gives goes to the other, in order, then its end.
// First the bytes that were appended, then those that the kernel moves from the source through a
// pipe, without a copy.
//
// Thread rule: one thread; nothing blocks, the sockets are non-blocking.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "netpolicy/splice/pipe_pool.h"

namespace atl::netpolicy {

class SplicePump {
 public:
  enum class State : uint8_t {
    kSourceEmpty,  // all is delivered, the source has nothing now
    kSinkFull,     // the sink takes no more now
    kBudgetSpent,  // go on later, nothing else has to happen
    kQuotaSpent,   // all is delivered that was granted
    kEnded,        // all is delivered, and that it was all (FIN)
    kBroken,       // one of the sockets is
  };
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit SplicePump(PipePool& pipes) : pipes_(pipes) {}

  // Bytes to be delivered before anything else from the source. The caller bounds them.
  void Append(std::string_view bytes) { pending_.append(bytes); }
  // So many bytes of the source may be moved from now on; at first none.
  void SetQuota(uint64_t bytes) { quota_ = bytes; }
  uint64_t quota() const { return quota_; }
  // The source ends here, whatever else it has.
  void End() { source_ended_ = true; }

  // Moves what it can; takes the number of bytes that were taken from the source off `budget`.
  State Run(int source, int sink, size_t& budget);

  bool ended() const { return state_ == State::kEnded; }
  bool sink_full() const { return state_ == State::kSinkFull; }
  bool source_ended() const { return source_ended_; }
  uint64_t moved() const { return moved_; }  // bytes delivered

 private:
  State Step(int source, int sink, size_t& budget);
  // Nothing: all was taken.
  std::optional<State> SendPending(int sink);
  std::optional<State> DrainPipe(int sink);
  std::optional<State> FillPipe(int source, size_t& budget);

  PipePool& pipes_;
  std::string pending_;
  size_t sent_ = 0;  // of pending_
  sys::Pipe pipe_;
  size_t in_pipe_ = 0;
  uint64_t quota_ = 0;
  uint64_t moved_ = 0;
  bool source_ended_ = false;
  State state_ = State::kSourceEmpty;
};

}  // namespace atl::netpolicy
