#include "netpolicy/splice/splice_pump.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atl::netpolicy {
namespace {

// More than any pipe holds, so one call fills it.
constexpr size_t kPiece = 1 << 20;

}  // namespace

SplicePump::State SplicePump::Run(int source, int sink, size_t& budget) {
  if (state_ == State::kEnded || state_ == State::kBroken) return state_;
  state_ = Step(source, sink, budget);
  // An empty pipe goes back to the pool, for other connections.
  if (in_pipe_ == 0 && pipe_.read.valid()) pipes_.Put(std::exchange(pipe_, {}));
  return state_;
}

SplicePump::State SplicePump::Step(int source, int sink, size_t& budget) {
  while (true) {
    if (const auto state = SendPending(sink)) return *state;
    if (const auto state = DrainPipe(sink)) return *state;
    if (source_ended_) {
      return ::shutdown(sink, SHUT_WR) == 0 ? State::kEnded : State::kBroken;
    }
    if (quota_ == 0) return State::kQuotaSpent;
    if (budget == 0) return State::kBudgetSpent;
    if (const auto state = FillPipe(source, budget)) return *state;
  }
}

std::optional<SplicePump::State> SplicePump::SendPending(int sink) {
  while (sent_ < pending_.size()) {
    const ssize_t n = TEMP_FAILURE_RETRY(
        ::send(sink, pending_.data() + sent_, pending_.size() - sent_, MSG_NOSIGNAL));
    if (n < 0) return errno == EAGAIN ? State::kSinkFull : State::kBroken;
    sent_ += static_cast<size_t>(n);
    moved_ += static_cast<uint64_t>(n);
  }
  // The memory is freed, not only cleared, because most connections use it only at their beginning.
  if (!pending_.empty()) pending_ = std::string();
  sent_ = 0;
  return std::nullopt;
}

std::optional<SplicePump::State> SplicePump::DrainPipe(int sink) {
  while (in_pipe_ > 0) {
    const ssize_t n = TEMP_FAILURE_RETRY(::splice(pipe_.read.get(), nullptr, sink, nullptr,
                                                  in_pipe_, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
    if (n < 0) return errno == EAGAIN ? State::kSinkFull : State::kBroken;
    if (n == 0) return State::kBroken;
    in_pipe_ -= static_cast<size_t>(n);
    moved_ += static_cast<uint64_t>(n);
  }
  return std::nullopt;
}

// Moves bytes from the source into the pipe. The pipe is empty here, so EAGAIN can only come from
// the socket.
std::optional<SplicePump::State> SplicePump::FillPipe(int source, size_t& budget) {
  if (!pipe_.read.valid()) {
    auto pipe = pipes_.Get();
    if (!pipe) return State::kBroken;
    pipe_ = std::move(*pipe);
  }
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(quota_, kPiece));
  const ssize_t n = TEMP_FAILURE_RETRY(::splice(source, nullptr, pipe_.write.get(), nullptr, wanted,
                                                SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
  if (n < 0) return errno == EAGAIN ? State::kSourceEmpty : State::kBroken;
  if (n == 0) {
    source_ended_ = true;
    return std::nullopt;
  }
  in_pipe_ = static_cast<size_t>(n);
  if (quota_ != kNoLimit) quota_ -= static_cast<uint64_t>(n);
  budget -= std::min(budget, in_pipe_);
  return std::nullopt;
}

}  // namespace atl::netpolicy
