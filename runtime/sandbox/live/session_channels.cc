#include "runtime/sandbox/live/session_channels.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/wire/bytes.h"

namespace atl::sandbox {
namespace {

constexpr size_t kPieceSize = 32 << 10;
// Descriptors of one request. A hostile sandbox could send more than the daemon takes out.
constexpr size_t kMaxDescriptors = 2;

}  // namespace

SessionChannels::~SessionChannels() {
  for (const auto& [id, channel] : channels_) loop_.Unwatch(channel->watch);
}

void SessionChannels::Open(const std::string& id, const std::string& execd_socket,
                           const std::string& access_token) {
  if (channels_.contains(id)) return;
  auto socket = ConnectToExecd(execd_socket);
  if (socket && IsPastSandboxes(socket->get())) {
    socket = Fail(NoDescriptors("a line for sessions", socket->get()));
  }
  if (!socket) {
    LogLine(LogLevel::kWarning, "no line for sessions").Add("sandbox", id).Add(socket.error());
    return;
  }
  if (!RequestLine(socket->get(), std::string(wire::kSessionRoute), access_token)) return;
  auto channel = std::make_shared<Channel>();
  channel->id = id;
  channel->socket = std::move(*socket);
  channels_[id] = channel;
  Listen(channel);
}

void SessionChannels::Listen(const ChannelPtr& channel) {
  channel->watch =
      loop_.WatchReadable(channel->socket.get(), [this, weak = std::weak_ptr(channel)] {
        if (const ChannelPtr strong = weak.lock()) OnReadable(strong);
      });
}

void SessionChannels::OnReadable(const ChannelPtr& channel) {
  auto piece = sys::ReceivePiece(channel->socket.get(), kPieceSize);
  if (!piece && piece.error().error_number() == EAGAIN) return;
  if (!piece || piece->bytes.empty()) return Close(channel);
  for (UniqueFd& descriptor : piece->fds) channel->descriptors.push_back(std::move(descriptor));
  Status taken;
  if (channel->descriptors.size() > kMaxDescriptors) {
    taken = Fail(Code::kInvalidArgument, "too many descriptors");
  } else {
    taken = Take(channel, piece->bytes);
  }
  if (taken) return;
  LogLine(LogLevel::kWarning, "a line for sessions is cut")
      .Add("sandbox", channel->id)
      .Add(taken.error());
  Close(channel);
}

Status SessionChannels::Take(const ChannelPtr& channel, std::string_view bytes) {
  if (channel->head) {
    ATOLL_ASSIGN(const auto rest, channel->head->Take(bytes));
    if (!rest) return {};
    channel->head.reset();
    return Take(channel, *rest);
  }
  channel->frames.Append(bytes);
  ATOLL_ASSIGN(const auto frame, channel->frames.Next());
  if (!frame) return {};
  wire::SessionRequest request;
  std::vector<UniqueFd> descriptors = std::exchange(channel->descriptors, {});
  if (!wire::DecodeFields(*frame, &request, descriptors) || channel->frames.pending() != 0) {
    return Fail(Code::kInvalidArgument, "a request that is malformed, or not alone");
  }
  Ask(channel, std::move(request));
  return {};
}

void SessionChannels::Ask(const ChannelPtr& channel, wire::SessionRequest request) {
  // The daemon reads the next request only after the answer to this one.
  loop_.Unwatch(std::exchange(channel->watch, 0));
  const auto answer = [this, weak = std::weak_ptr(channel)](const Status& status) {
    if (const ChannelPtr strong = weak.lock()) Answer(strong, status);
  };
  std::visit(
      [&](auto& what) {
        if constexpr (requires { what.spec; }) {
          spawner_.Ask(wire::MakeSessionOf(channel->id, std::move(what)), answer);
        } else if constexpr (requires { what.number; }) {
          spawner_.Ask(wire::EndSession{.id = channel->id, .number = what.number}, answer);
        } else {
          // The files of a sandbox of namespaces are local. Posted, because the caller reads on.
          loop_.Post([answer] { answer({}); });
        }
      },
      request.what);
}

void SessionChannels::Answer(const ChannelPtr& channel, const Status& status) {
  const std::string frame = wire::Frame(wire::EncodeFields(wire::ReplyOf(status)));
  // execd reads each answer before it sends its next request, so the socket has room. Without room
  // the sandbox misbehaves, and its channel is closed.
  const ssize_t n =
      ::send(channel->socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(frame.size())) return Close(channel);
  Listen(channel);
}

void SessionChannels::Close(const ChannelPtr& channel) {
  loop_.Unwatch(std::exchange(channel->watch, 0));
  channels_.erase(channel->id);
}

}  // namespace atl::sandbox
