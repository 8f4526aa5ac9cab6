// One direction of a connection: moves bytes from one socket to the other, in order, and then the
// end of the stream. Appended bytes go first. All others are moved by the kernel through a pipe,
// without a copy.
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
    kSourceEmpty,  // all bytes are delivered, the source has no more now
    kSinkFull,     // the sink takes no more now
    kBudgetSpent,  // call again later, without waiting for an event
    kQuotaSpent,   // all bytes of the quota are delivered
    kEnded,        // all bytes and the end of the stream (FIN) are delivered
    kBroken,       // one of the sockets has failed
  };
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit SplicePump(PipePool& pipes) : pipes_(pipes) {}

  // Queues bytes that go before anything else from the source. The caller bounds their number.
  void Append(std::string_view bytes) { pending_.append(bytes); }
  // Sets how many bytes of the source may be moved from now on. Initially 0.
  void SetQuota(uint64_t bytes) { quota_ = bytes; }
  uint64_t quota() const { return quota_; }
  // Treats the source as ended here, even if it has more bytes.
  void End() { source_ended_ = true; }

  // Moves as much as possible. Subtracts the bytes taken from the source from `budget`.
  State Run(int source, int sink, size_t& budget);

  bool ended() const { return state_ == State::kEnded; }
  bool sink_full() const { return state_ == State::kSinkFull; }
  bool source_ended() const { return source_ended_; }
  uint64_t moved() const { return moved_; }  // bytes delivered

 private:
  State Step(int source, int sink, size_t& budget);
  // Empty if everything was sent.
  std::optional<State> SendPending(int sink);
  std::optional<State> DrainPipe(int sink);
  std::optional<State> FillPipe(int source, size_t& budget);

  PipePool& pipes_;
  std::string pending_;
  size_t sent_ = 0;  // bytes of pending_ that are sent
  sys::Pipe pipe_;
  size_t in_pipe_ = 0;
  uint64_t quota_ = 0;
  uint64_t moved_ = 0;
  bool source_ended_ = false;
  State state_ = State::kSourceEmpty;
};

}  // namespace atl::netpolicy
