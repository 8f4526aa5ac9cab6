#include "runtime/http/stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace atl::http {
namespace {

// First byte of a TLS client's first record (RFC 8446 section 5.1). No method begins with it.
constexpr char kHandshakeRecord = 22;
constexpr size_t kMaxRecord = 16 << 10;  // RFC 8446 section 5.1
// Writes in a row before other connections get their turn.
constexpr int kWritesAtOnce = 4;
// Edge-triggered: a socket is registered once for all its reads and writes, and causes no wake-up
// for events that nobody waits for. EPOLLOUT is added by the first write that has to wait, because
// a Unix socket reports it whenever the peer has read.
constexpr uint32_t kReadEvents = EPOLLIN | EPOLLET;
constexpr uint32_t kAllEvents = kReadEvents | EPOLLOUT;

// The result of a call that failed with errno.
IoStep Failed(IoStep::Kind if_it_would_block) {
  if (errno == EAGAIN) return {if_it_would_block};
  return {IoStep::Kind::kFailed, 0, errno};
}

}  // namespace

Result<std::shared_ptr<Stream>> Stream::Create(EventLoop& loop, UniqueFd socket) {
  const std::shared_ptr<Stream> stream(new Stream(loop, std::move(socket)));
  ATOLL_ASSIGN(stream->watch_,
               loop.Watch(stream->fd(), kReadEvents,
                          [raw = stream.get()](uint32_t events) { raw->OnEvents(events); }));
  return stream;
}

Stream::~Stream() {
  loop_.Unwatch(watch_);
}

void Stream::OnEvents(uint32_t events) {
  // A callback may drop the last reference.
  const std::shared_ptr<Stream> self = shared_from_this();
  if (handshake_done_) return TryHandshake(false);
  // TLS may have to read before it can write, and the reverse.
  const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0 || tls_;
  if (write_done_ && (broken || (events & EPOLLOUT) != 0)) TryWrite(false);
  if (read_done_ && (broken || (events & EPOLLIN) != 0)) TryRead(false);
  if (shutdown_waits_) ShutdownSend();
}

void Stream::Complete(Done done, int error, size_t size, bool in_call) {
  if (!in_call) return done(error, size);
  loop_.Post([done = std::move(done), error, size] { done(error, size); });
}

bool Stream::MustWait(const IoStep& step) {
  if (step.kind == IoStep::Kind::kWritable) loop_.Modify(watch_, kAllEvents);
  return step.kind == IoStep::Kind::kReadable || step.kind == IoStep::Kind::kWritable;
}

// ---- TLS

void Stream::StartTls(std::shared_ptr<const TlsContext> context, bool may_be_plain,
                      std::function<void(int)> done) {
  if (!may_be_plain) tls_ = std::make_unique<TlsSession>(fd(), context);
  handshake_context_ = std::move(context);
  handshake_done_ = [done = std::move(done)](int error, size_t) { done(error); };
  TryHandshake(true);
}

void Stream::ConnectTls(std::shared_ptr<const TlsContext> context, const std::string& server,
                        std::function<void(int, const char*)> done) {
  tls_ = std::make_unique<TlsSession>(fd(), std::move(context), server);
  handshake_done_ = [weak = weak_from_this(), done = std::move(done)](int error, size_t) {
    const auto self = weak.lock();
    done(error, error != 0 && self ? self->tls_->verify_error() : nullptr);
  };
  TryHandshake(true);
}

void Stream::TryHandshake(bool in_call) {
  IoStep step;
  if (!tls_) {
    char first = 0;
    const ssize_t n = recv(fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // An end or an error is left for the first read, which sees it again.
    if (n == 1 && first == kHandshakeRecord) {
      tls_ = std::make_unique<TlsSession>(fd(), handshake_context_);
    }
  }
  if (tls_) {
    step = tls_->Handshake();
    if (MustWait(step)) return;
    if (step.error == ENOPROTOOPT) tls_.reset();
  }
  handshake_context_ = nullptr;
  Complete(std::exchange(handshake_done_, nullptr), step.error, 0, in_call);
}

// ---- reading

void Stream::Read(char* data, size_t size, Done done) {
  if (!socket_) return Complete(std::move(done), ECANCELED, 0, true);
  read_data_ = data;
  read_size_ = size;
  read_done_ = std::move(done);
  TryRead(true);
}

IoStep Stream::ReadOnce() {
  if (tls_) return tls_->Read(read_data_, read_size_);
  const ssize_t n = TEMP_FAILURE_RETRY(recv(fd(), read_data_, read_size_, MSG_DONTWAIT));
  if (n < 0) return Failed(IoStep::Kind::kReadable);
  if (n == 0) return {IoStep::Kind::kFailed, 0, kEndOfStream};
  return {IoStep::Kind::kDone, static_cast<size_t>(n)};
}

void Stream::TryRead(bool in_call) {
  const IoStep step = ReadOnce();
  if (!MustWait(step)) Complete(std::exchange(read_done_, nullptr), step.error, step.size, in_call);
}

// ---- writing

void Stream::Write(std::initializer_list<std::string_view> parts, Done done,
                   std::function<void()> progress) {
  if (!socket_) return Complete(std::move(done), ECANCELED, 0, true);
  ATOLL_CHECK(parts.size() <= parts_.size());
  parts_.fill({});
  std::copy(parts.begin(), parts.end(), parts_.begin());
  written_ = 0;
  write_done_ = std::move(done);
  progress_ = std::move(progress);
  TryWrite(true);
}

IoStep Stream::WriteOnce() {
  if (tls_) {
    // All parts go into one record, so that head and body of a small answer are one segment.
    if (record_.empty()) {
      for (const std::string_view part : parts_) {
        record_.append(part.substr(0, kMaxRecord - record_.size()));
      }
    }
    const IoStep step = tls_->Write(record_);
    if (step.kind == IoStep::Kind::kDone) record_.erase(0, step.size);
    return step;
  }
  std::array<iovec, 3> pieces;
  msghdr message{};
  message.msg_iov = pieces.data();
  for (const std::string_view part : parts_) {
    if (part.empty()) continue;
    pieces[message.msg_iovlen++] = {const_cast<char*>(part.data()), part.size()};
  }
  const ssize_t n = TEMP_FAILURE_RETRY(sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
  if (n < 0) return Failed(IoStep::Kind::kWritable);
  return {IoStep::Kind::kDone, static_cast<size_t>(n)};
}

void Stream::TryWrite(bool in_call) {
  const auto left = [this] {
    return std::any_of(parts_.begin(), parts_.end(), [](auto part) { return !part.empty(); });
  };
  IoStep step;
  for (int i = 0; left() && i < kWritesAtOnce; ++i) {
    step = WriteOnce();
    if (MustWait(step)) return;
    if (step.kind == IoStep::Kind::kFailed) break;
    written_ += step.size;
    for (std::string_view& part : parts_) {
      const size_t taken = std::min(step.size, part.size());
      part.remove_prefix(taken);
      step.size -= taken;
    }
    if (progress_) progress_();
  }
  if (step.kind == IoStep::Kind::kDone && left()) {
    return loop_.Post([self = shared_from_this()] {
      if (self->write_done_) self->TryWrite(false);
    });
  }
  progress_ = nullptr;
  Complete(std::exchange(write_done_, nullptr), step.error, written_, in_call);
}

// ---- the end

void Stream::ShutdownSend() {
  // The end waits until the socket takes it: without TLS's close_notify the client would consider
  // the answer cut off.
  shutdown_waits_ = socket_ && tls_ && MustWait(tls_->Shutdown());
  if (!shutdown_waits_) (void)shutdown(fd(), SHUT_WR);
}

void Stream::Close(bool properly) {
  if (!socket_) return;
  if (tls_ && properly) tls_->TryShutdown();
  loop_.Unwatch(watch_);
  socket_.reset();
  shutdown_waits_ = false;
  progress_ = nullptr;
  if (handshake_done_) Complete(std::exchange(handshake_done_, nullptr), ECANCELED, 0, true);
  if (write_done_) Complete(std::exchange(write_done_, nullptr), ECANCELED, written_, true);
  if (read_done_) Complete(std::exchange(read_done_, nullptr), ECANCELED, 0, true);
}

}  // namespace atl::http
