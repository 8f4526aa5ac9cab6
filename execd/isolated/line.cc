#include "execd/isolated/line.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/wire/bytes.h"

namespace atl::execd {
namespace {

constexpr int64_t kAnswerUs = 5'000'000;

}  // namespace

void SessionLine::Connect(UniqueFd socket, const std::string& first) {
  Disconnect();
  ::fcntl(socket.get(), F_SETFL, O_RDWR | O_NONBLOCK);
  auto watch = loop_.Watch(socket.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
  if (!watch) return;
  socket_ = std::move(socket);
  watch_ = *watch;
  frames_ = wire::Frames(wire::kMaxSessionReply);
  if (!first.empty()) (void)sys::SendMessage(socket_.get(), first);
  SendNext();
}

void SessionLine::Ask(wire::SessionRequest request, Done done) {
  const uint64_t number = ++numbers_;
  waiting_.push_back({number, std::move(request), std::move(done)});
  loop_.After(kAnswerUs, [this, number] {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [number](const Asked& asked) {
      return asked.number == number;
    });
    // A request that was sent stays queued, because the daemon will answer it.
    if (found == waiting_.end() || (sent_ && found == waiting_.begin())) return;
    const Done late = std::move(found->done);
    waiting_.erase(found);
    late(Fail(Code::kUnavailable, "the sandbox's daemon does not answer"));
  });
  SendNext();
}

void SessionLine::SendNext() {
  if (!socket_ || sent_ || waiting_.empty()) return;
  const wire::Packet packet = wire::EncodePacket(waiting_.front().request);
  // The message fits, because everything sent before has been read.
  const Status sent =
      sys::SendMessage(socket_.get(), wire::Frame(packet.bytes), packet.descriptors);
  sent_ = true;
  if (!sent) return Disconnect();
  // Closes execd's copies of the descriptors.
  std::visit(
      [](auto& what) {
        if constexpr (requires { what.control; }) {
          what.control.reset();
          what.connections.reset();
        }
      },
      waiting_.front().request.what);
}

void SessionLine::OnReadable() {
  auto piece = sys::ReceivePiece(socket_.get(), wire::kMaxSessionReply);
  if (!piece && piece.error().error_number() == EAGAIN) return;
  if (!piece || piece->bytes.empty()) return Disconnect();
  frames_.Append(piece->bytes);
  const auto frame = frames_.Next();
  if (frame && !*frame) return;
  wire::SessionReply reply;
  if (!frame || !wire::DecodeFields(**frame, &reply) || !sent_) return Disconnect();
  // The code means only that the disk is full (SessionReply).
  const int number = reply.code == Code::kResourceExhausted ? ENOSPC : 0;
  Finish(reply.done ? Status() : Fail(Error(reply.code, reply.message, number)));
}

void SessionLine::Finish(Status status) {
  if (!std::exchange(sent_, false)) return;
  const Done done = std::move(waiting_.front().done);
  waiting_.pop_front();
  SendNext();
  done(std::move(status));
}

void SessionLine::Disconnect() {
  loop_.Unwatch(std::exchange(watch_, 0));
  socket_.reset();
  Finish(Fail(Code::kUnavailable, "the sandbox's daemon has gone"));
}

}  // namespace atl::execd
