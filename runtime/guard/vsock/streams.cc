#include "runtime/guard/vsock/streams.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace atl::vsock {
namespace {

// Ports of the host's end of connections that the host makes. The kernel's own begin lower.
constexpr uint32_t kFirstPort = 0x40000000, kLastPort = 0x7fffffff;
// Resets that may wait for the guest's buffers before its packets have to wait.
constexpr size_t kMaxResets = 256;
// Packets of the guest, and packets or batches to it, in one turn of the loop.
constexpr size_t kTakeAtOnce = 64, kGiveAtOnce = 64;
constexpr size_t kMaxBatch = 32;
constexpr uint32_t kCreditStep = kStreamBuffer / 4;
constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

Error Broken(const char* why) {
  return {Code::kInvalidArgument, std::string("virtio socket: ") + why};
}

}  // namespace

uint32_t Streams::Stream::Credit() const {
  // A guest that has taken more than it was sent is in flight with almost 2^32, and gets nothing.
  const uint32_t in_flight = sent - guest_took;
  return in_flight < guest_room ? guest_room - in_flight : 0;
}

uint32_t Streams::Stream::End() const {
  const bool to_host = !host_deaf && !end_passed;
  const bool to_guest = !host_ended && (guest_end & kEndReceive) == 0;
  if (!to_host && !to_guest) return kEndBoth;
  return (host_deaf ? kEndReceive : 0) | (host_ended ? kEndSend : 0);
}

bool Streams::Stream::MayRead() const {
  return state == State::kOpen && readable && !host_ended && (guest_end & kEndReceive) == 0;
}

bool Streams::Stream::HasPacket() const {
  if (owed != 0) return true;
  if (state != State::kOpen) return false;
  return (End() & ~told_end) != 0 || (MayRead() && (Credit() > 0 || !asked_credit));
}

Streams::Streams(EventLoop& loop, uint64_t guest_cid, Virtqueue& to_guest, Virtqueue& from_guest,
                 VsockDevice::Handler handler, const VsockDevice::Limits& limits,
                 std::function<void(Error)> broken)
    : loop_(loop),
      guest_cid_(guest_cid),
      to_guest_(to_guest),
      from_guest_(from_guest),
      handler_(std::move(handler)),
      limits_(limits),
      broken_(std::move(broken)),
      next_port_(kFirstPort),
      given_(kMaxBatch) {}

Streams::Stream* Streams::Add(uint64_t key, State state, UniqueFd socket) {
  if (closed_ || Full() || streams_.contains(key)) return nullptr;
  auto stream = std::make_unique<Stream>();
  Stream* added = stream.get();
  added->key = key;
  added->state = state;
  added->socket = std::move(socket);
  auto watch = loop_.Watch(added->socket.get(), kSocketEvents,
                           [this, added](uint32_t events) { OnSocket(*added, events); });
  if (!watch) return nullptr;
  added->watch = *watch;
  streams_.emplace(key, std::move(stream));
  return added;
}

void Streams::Unqueue(Stream& stream) {
  if (std::exchange(stream.queued, false)) std::erase(ready_, &stream);
}

void Streams::Queue(Stream& stream) {
  if (stream.queued || !stream.HasPacket()) return;
  stream.queued = true;
  ready_.push_back(&stream);
  Wake();
}

void Streams::Remove(Stream& stream) {
  Unqueue(stream);
  loop_.Unwatch(stream.watch);
  loop_.Cancel(stream.timer);
  if (stream.state != State::kLeaving) {
    const uint64_t key = stream.key;
    streams_.erase(key);
    return;
  }
  leaving_.erase(&stream);
  if (leaving_.empty() && delivered_) loop_.Post(guard_(std::exchange(delivered_, nullptr)));
}

void Streams::Leave(Stream& stream) {
  if (stream.held.size() == 0) return Remove(stream);
  Unqueue(stream);
  loop_.Cancel(std::exchange(stream.timer, 0));
  stream.owed = 0;
  stream.state = State::kLeaving;
  // A host that writes before it reads would wait for ever.
  ::shutdown(stream.socket.get(), SHUT_RD);
  auto node = streams_.extract(stream.key);
  leaving_.emplace(&stream, std::move(node.mapped()));
}

void Streams::ResetStream(Stream& stream) {
  // The guest has not heard of a connection that it was not asked for.
  if ((stream.owed & kRequest) == 0) {
    resets_.push_back({stream.key, VIRTIO_VSOCK_TYPE_STREAM});
    Wake();
  }
  Leave(stream);
}

void Streams::Connect(uint32_t port, UniqueFd socket) {
  while (streams_.contains(Key(port, next_port_))) {
    next_port_ = next_port_ == kLastPort ? kFirstPort : next_port_ + 1;
  }
  Stream* stream = Add(Key(port, next_port_), State::kAsked, std::move(socket));
  next_port_ = next_port_ == kLastPort ? kFirstPort : next_port_ + 1;
  if (stream == nullptr) return;
  stream->timer = loop_.After(limits_.connect_us, [this, stream] { ResetStream(*stream); });
  stream->owed = kRequest;
  Queue(*stream);
}

void Streams::Forget() {
  resets_.clear();
  std::vector<Stream*> known;
  for (const auto& [key, stream] : streams_) {
    if ((stream->owed & kRequest) == 0) known.push_back(stream.get());
  }
  for (Stream* stream : known) Leave(*stream);
}

void Streams::Finish(std::function<void()> delivered) {
  closed_ = true;
  resets_.clear();
  while (!streams_.empty()) Leave(*streams_.begin()->second);
  if (leaving_.empty()) return loop_.Post(guard_(std::move(delivered)));
  delivered_ = std::move(delivered);
}

void Streams::CloseAll() {
  closed_ = true;
  delivered_ = nullptr;
  resets_.clear();
  while (!streams_.empty()) Remove(*streams_.begin()->second);
  while (!leaving_.empty()) Remove(*leaving_.begin()->second);
}

// ---- host sockets

void Streams::OnSocket(Stream& stream, uint32_t events) {
  stream.readable = true;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) HostIsDeaf(stream);
  Flush(stream);
  if (stream.state == State::kLeaving) {
    if (stream.held.size() == 0) Remove(stream);
    return;
  }
  Queue(stream);
}

size_t Streams::Send(Stream& stream, std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  for (;;) {
    const ssize_t n = ::sendmsg(stream.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) stream.host_deaf = true;
    return 0;
  }
}

void Streams::HostIsDeaf(Stream& stream) {
  stream.host_deaf = true;
  stream.took += static_cast<uint32_t>(stream.held.size());
  stream.held.Drop(stream.held.size());
}

void Streams::Flush(Stream& stream) {
  if (stream.state == State::kClosing) return;
  while (stream.held.size() > 0) {
    const auto parts = stream.held.Parts();
    const size_t n = Send(stream, parts);
    if (stream.host_deaf) HostIsDeaf(stream);
    if (stream.held.size() == 0) break;
    if (n == 0) return loop_.Modify(stream.watch, kSocketEvents | EPOLLOUT);
    stream.held.Drop(n);
    stream.took += static_cast<uint32_t>(n);
  }
  loop_.Modify(stream.watch, kSocketEvents);
  if (stream.took - stream.told_took >= kCreditStep && stream.state == State::kOpen) {
    stream.owed |= kCredit;
  }
  if ((stream.guest_end & kEndSend) != 0 && !std::exchange(stream.end_passed, true)) {
    ::shutdown(stream.socket.get(), SHUT_WR);
  }
}

void Streams::Deliver(Stream& stream, std::span<const iovec> parts) {
  size_t size = 0;
  for (const iovec& part : parts) size += part.iov_len;
  size_t n = 0;
  if (stream.held.size() == 0 && !stream.host_deaf) n = Send(stream, parts);
  if (stream.host_deaf) n = size;  // nobody wants them
  stream.took += static_cast<uint32_t>(n);
  if (n < size) {
    std::vector<iovec> rest;
    AppendSlice(parts, n, size - n, rest);
    stream.held.Append(rest);
  }
  Flush(stream);
}

// ---- from the guest

void Streams::Wake() {
  if (closed_ || std::exchange(scheduled_, true)) return;
  loop_.Post(guard_([this] { Work(); }));
}

void Streams::Work() {
  scheduled_ = false;
  if (closed_) return;
  Status status = TakeFromGuest(kTakeAtOnce);
  if (status) status = GiveToGuest();
  if (!status) return broken_(std::move(status).error());
  from_guest_.Notify();
  to_guest_.Notify();
}

Status Streams::Drain() {
  if (closed_) return {};
  // A guest that takes no resets has not earned them. One that adds packets is not waited for.
  if (resets_.size() >= kMaxResets) resets_.clear();
  ATOLL_TRY(TakeFromGuest(from_guest_.size()));
  from_guest_.Notify();
  return {};
}

Status Streams::TakeFromGuest(size_t limit) {
  if (!from_guest_.running()) return {};
  from_guest_.DisableKicks();
  for (size_t taken = 0;; ++taken) {
    blocked_ = resets_.size() >= kMaxResets;
    if (blocked_) break;
    if (taken == limit) {
      Wake();
      break;
    }
    ATOLL_ASSIGN(const bool popped, from_guest_.Pop(taken_));
    if (!popped) {
      if (!from_guest_.EnableKicks()) break;
      from_guest_.DisableKicks();
      continue;
    }
    ATOLL_TRY(OnPacket(taken_));
    from_guest_.Push(taken_, 0);
  }
  from_guest_.Publish();
  return {};
}

Status Streams::OnPacket(const Virtqueue::Chain& chain) {
  if (chain.size < kHeaderSize) return Fail(Broken("a packet without a header"));
  const Header header = ReadHeader(chain.parts);
  if (header.len > chain.size - kHeaderSize) {
    return Fail(Broken("a packet that is shorter than it says"));
  }
  if (header.src_cid != guest_cid_ || header.dst_cid != kHostCid) return {};
  const uint64_t key = Key(header.src_port, header.dst_port);
  const auto found = streams_.find(key);
  if (header.type == VIRTIO_VSOCK_TYPE_STREAM && found != streams_.end()) {
    OnStreamPacket(*found->second, header, chain);
  } else if (header.type == VIRTIO_VSOCK_TYPE_STREAM && header.op == VIRTIO_VSOCK_OP_REQUEST) {
    OnRequest(header, key);
  } else if (header.op != VIRTIO_VSOCK_OP_RST) {
    resets_.push_back({key, header.type});
  }
  return {};
}

void Streams::OnRequest(const Header& header, uint64_t key) {
  Stream* stream = nullptr;
  if (!Full()) {
    auto socket = handler_(header.dst_port);
    if (socket) stream = Add(key, State::kOpen, std::move(*socket));
  }
  if (stream == nullptr) return resets_.push_back({key, header.type});
  stream->guest_room = header.buf_alloc;
  stream->guest_took = header.fwd_cnt;
  stream->owed = kResponse;
  Queue(*stream);
}

void Streams::OnStreamPacket(Stream& stream, const Header& header, const Virtqueue::Chain& chain) {
  if (header.op == VIRTIO_VSOCK_OP_RST) return Leave(stream);
  const bool expected = stream.state == State::kAsked && (stream.owed & kRequest) == 0
                            ? header.op == VIRTIO_VSOCK_OP_RESPONSE
                            : stream.state != State::kAsked;
  if (!expected) return ResetStream(stream);
  stream.guest_room = header.buf_alloc;
  stream.guest_took = header.fwd_cnt;
  if (stream.Credit() > 0) stream.asked_credit = false;
  switch (header.op) {
    case VIRTIO_VSOCK_OP_RESPONSE:
      if (stream.state != State::kAsked) return ResetStream(stream);
      stream.state = State::kOpen;
      loop_.Cancel(std::exchange(stream.timer, 0));
      break;
    case VIRTIO_VSOCK_OP_RW:
      return OnData(stream, header, chain);
    case VIRTIO_VSOCK_OP_SHUTDOWN:
      return OnShutdown(stream, header.flags);
    case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
      break;
    case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
      stream.owed |= kCredit;
      break;
    default:
      return ResetStream(stream);
  }
  Queue(stream);
}

void Streams::OnData(Stream& stream, const Header& header, const Virtqueue::Chain& chain) {
  if (stream.state == State::kClosing) return;  // sent before the guest heard of the end
  if ((stream.guest_end & kEndSend) != 0 || header.len > stream.held.room()) {
    return ResetStream(stream);
  }
  parts_.clear();
  AppendSlice(chain.parts, kHeaderSize, header.len, parts_);
  if (!parts_.empty()) Deliver(stream, parts_);
  Queue(stream);
}

void Streams::OnShutdown(Stream& stream, uint32_t flags) {
  stream.guest_end |= flags & kEndBoth;
  if (stream.guest_end == kEndBoth) return ResetStream(stream);
  if ((stream.guest_end & kEndReceive) != 0) ::shutdown(stream.socket.get(), SHUT_RD);
  Flush(stream);
  Queue(stream);
}

// ---- to the guest

Header Streams::HeaderOf(Stream& stream, uint16_t op) {
  stream.told_took = stream.took;
  stream.owed &= ~unsigned{kCredit};
  return {.src_cid = kHostCid,
          .dst_cid = guest_cid_,
          .src_port = stream.host_port(),
          .dst_port = stream.guest_port(),
          .len = 0,
          .type = VIRTIO_VSOCK_TYPE_STREAM,
          .op = op,
          .flags = 0,
          .buf_alloc = kStreamBuffer,
          .fwd_cnt = stream.took};
}

Result<bool> Streams::PopToGuest(Virtqueue::Chain& chain) {
  ATOLL_ASSIGN(const bool popped, to_guest_.Pop(chain));
  if (popped && chain.size <= kHeaderSize) return Fail(Broken("a buffer without room"));
  return popped;
}

Result<bool> Streams::GivePacket(Stream& stream, uint16_t op, uint32_t flags) {
  Virtqueue::Chain& chain = given_.front();
  ATOLL_ASSIGN(const bool popped, PopToGuest(chain));
  if (!popped) return false;
  Header header = HeaderOf(stream, op);
  header.flags = flags;
  WriteHeader(chain.parts, header);
  to_guest_.Push(chain, kHeaderSize);
  return true;
}

Result<bool> Streams::GiveReset(const Reset& reset) {
  Virtqueue::Chain& chain = given_.front();
  ATOLL_ASSIGN(const bool popped, PopToGuest(chain));
  if (!popped) return false;
  WriteHeader(chain.parts, {.src_cid = kHostCid,
                            .dst_cid = guest_cid_,
                            .src_port = static_cast<uint32_t>(reset.key),
                            .dst_port = static_cast<uint32_t>(reset.key >> 32),
                            .type = reset.type,
                            .op = VIRTIO_VSOCK_OP_RST});
  to_guest_.Push(chain, kHeaderSize);
  return true;
}

Status Streams::GiveToGuest() {
  if (!to_guest_.running()) return {};
  to_guest_.DisableKicks();
  for (size_t given = 0; !resets_.empty() || !ready_.empty(); ++given) {
    if (given == kGiveAtOnce) {
      Wake();
      break;
    }
    bool room = false;
    if (!resets_.empty()) {
      ATOLL_ASSIGN(room, GiveReset(resets_.front()));
      if (room) resets_.pop_front();
    } else {
      ATOLL_ASSIGN(room, Give(*ready_.front()));
    }
    if (room) continue;
    if (!to_guest_.EnableKicks()) break;
    to_guest_.DisableKicks();
  }
  if (blocked_ && resets_.size() < kMaxResets) Wake();
  to_guest_.Publish();
  return {};
}

Result<bool> Streams::Give(Stream& stream) {
  bool room = true;
  if ((stream.owed & kRequest) != 0) {
    ATOLL_ASSIGN(room, GivePacket(stream, VIRTIO_VSOCK_OP_REQUEST));
    if (room) stream.owed &= ~unsigned{kRequest};
  } else if ((stream.owed & kResponse) != 0) {
    ATOLL_ASSIGN(room, GivePacket(stream, VIRTIO_VSOCK_OP_RESPONSE));
    if (room) stream.owed &= ~unsigned{kResponse};
  } else if ((stream.owed & kCredit) != 0) {
    ATOLL_ASSIGN(room, GivePacket(stream, VIRTIO_VSOCK_OP_CREDIT_UPDATE));
  } else if (stream.MayRead() && stream.Credit() > 0) {
    ATOLL_ASSIGN(room, GiveData(stream));
  } else if (const uint32_t end = stream.End();
             stream.state == State::kOpen && (end & ~stream.told_end) != 0) {
    ATOLL_ASSIGN(room, GivePacket(stream, VIRTIO_VSOCK_OP_SHUTDOWN, end));
    if (room) stream.told_end = end;
  } else if (stream.MayRead() && !stream.asked_credit) {
    ATOLL_ASSIGN(room, GivePacket(stream, VIRTIO_VSOCK_OP_CREDIT_REQUEST));
    stream.asked_credit = room;
  }
  if (!room) return false;
  Unqueue(stream);
  if (stream.told_end == kEndBoth && stream.state == State::kOpen) {
    stream.state = State::kClosing;
    loop_.Unwatch(std::exchange(stream.watch, 0));
    stream.socket.reset();
    stream.timer = loop_.After(limits_.close_us, [this, &stream] { ResetStream(stream); });
  }
  Queue(stream);
  return true;
}

Result<bool> Streams::GiveData(Stream& stream) {
  parts_.clear();
  size_t chains = 0;
  size_t size = 0;
  const size_t credit = stream.Credit();
  while (chains < stream.batch && size < credit) {
    Virtqueue::Chain& chain = given_[chains];
    ATOLL_ASSIGN(const bool popped, PopToGuest(chain));
    if (!popped) break;
    if (parts_.size() + chain.parts.size() > IOV_MAX) {
      to_guest_.Unpop(1);
      break;
    }
    size += AppendSlice(chain.parts, kHeaderSize, credit - size, parts_);
    ++chains;
  }
  if (chains == 0) return false;
  msghdr message{};
  message.msg_iov = parts_.data();
  message.msg_iovlen = parts_.size();
  ssize_t n;
  do {
    n = ::recvmsg(stream.socket.get(), &message, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) stream.readable = false;
  // An error comes after the last byte, as the end does.
  if (n == 0 || (n < 0 && errno != EAGAIN)) stream.host_ended = true;
  size_t left = n > 0 ? static_cast<size_t>(n) : 0;
  stream.batch = left == size ? std::min(stream.batch * 2, kMaxBatch) : 1;
  size_t used = 0;
  for (; left > 0; ++used) {
    const Virtqueue::Chain& chain = given_[used];
    Header header = HeaderOf(stream, VIRTIO_VSOCK_OP_RW);
    header.len = static_cast<uint32_t>(std::min(left, chain.size - kHeaderSize));
    WriteHeader(chain.parts, header);
    to_guest_.Push(chain, static_cast<uint32_t>(kHeaderSize) + header.len);
    stream.sent += header.len;
    left -= header.len;
  }
  to_guest_.Unpop(static_cast<uint16_t>(chains - used));
  return true;
}

}  // namespace atl::vsock
