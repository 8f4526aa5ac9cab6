#include "runtime/http/sole_upstream.h"

#include <poll.h>

#include <cstring>
#include <utility>

#include "runtime/http/pooled_loop.h"
#include "runtime/http/stream.h"

namespace atl::http {
namespace {

// The same limit as for connecting to a server.
constexpr int64_t kHandshakeUs = 10'000'000;

}  // namespace

Result<std::shared_ptr<SoleUpstream>> SoleUpstream::Create(PooledLoop& loop, UniqueFd socket,
                                                           std::shared_ptr<const TlsContext> trust,
                                                           const std::string& server) {
  const std::shared_ptr<SoleUpstream> made(new SoleUpstream(loop));
  ATOLL_ASSIGN(made->stream_, Stream::Create(loop.events(), std::move(socket)));
  if (!trust) return made;
  made->shaking_hands_ = true;
  made->patience_ = loop.After(kHandshakeUs, [weak = made->weak_from_this()] {
    // Closing the stream ends the handshake.
    if (const auto self = weak.lock()) self->stream_->Close();
  });
  made->stream_->ConnectTls(
      std::move(trust), server,
      [weak = made->weak_from_this(), server](int error, const char* verify_error) {
        if (const auto self = weak.lock()) self->OnHandshake(server, error, verify_error);
      });
  return made;
}

SoleUpstream::~SoleUpstream() {
  loop_.Cancel(patience_);
  if (stream_) stream_->Close();
}

void SoleUpstream::OnHandshake(const std::string& server, int error, const char* verify_error) {
  shaking_hands_ = false;
  loop_.Cancel(std::exchange(patience_, 0));
  if (error != 0) {
    failed_ =
        verify_error != nullptr
            ? Error(Code::kUnavailable,
                    "the certificate of " + server + " is not accepted: " + verify_error)
            : Error(Code::kUnavailable,
                    "the TLS handshake with " + server + " failed" +
                        (error > 0 ? std::string(": ") + std::strerror(error) : std::string()));
    stream_.reset();
  }
  if (waiting_) Take(std::exchange(waiting_, nullptr));
}

void SoleUpstream::Take(Taken done) {
  if (shaking_hands_) {
    waiting_ = std::move(done);
    return;
  }
  if (failed_) return done(Fail(*failed_));
  if (!stream_) return done(Fail(Code::kUnavailable, "the server has closed the connection"));
  ++uses_;
  stream_->ForgetRead();
  done(std::move(stream_));
}

void SoleUpstream::Put(std::shared_ptr<Stream> stream) {
  stream_ = std::move(stream);
  // Waits for the server's end, or for unexpected bytes. After either of them the connection is not
  // used.
  stream_->Read(&unasked_, 1, [weak = weak_from_this(), uses = uses_](int, size_t) {
    const auto self = weak.lock();
    if (!self || !self->stream_ || self->uses_ != uses) return;
    self->stream_->Close();
    self->stream_.reset();
    if (self->on_end_) self->on_end_();
  });
}

bool SoleUpstream::ended() const {
  if (uses_ == 0) return false;
  if (!stream_) return true;
  // Only the end counts, not bytes: a TLS server sends tickets unasked.
  pollfd server{stream_->fd(), POLLRDHUP, 0};
  return poll(&server, 1, 0) > 0;
}

}  // namespace atl::http
