#include "runtime/http/tunnel.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/http/connection.h"
#include "runtime/http/websocket.h"

namespace atl::http {
namespace {

constexpr size_t kTunnelRead = 16 << 10;
// Time of a client to take the close frame of a revoked WebSocket and to end its side.
constexpr int64_t kFarewellUs = 500'000;
// RFC 6455 section 7.4.1
constexpr uint16_t kPolicyViolation = 1008, kServerError = 1011;
constexpr std::string_view kTapped = "the daemon cannot record this connection";

class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  Tunnel(std::shared_ptr<Connection> connection, std::shared_ptr<Stream> upstream,
         Buffer from_upstream, std::shared_ptr<const void> held, std::shared_ptr<TunnelTap> tap,
         bool web_socket)
      : connection_(std::move(connection)),
        upstream_(std::move(upstream)),
        from_upstream_(std::move(from_upstream)),
        held_(std::move(held)),
        tap_(std::move(tap)) {
    if (web_socket) frames_.emplace();
  }

  void Start() {
    connection_->ForgetRead();
    connection_->SetOnAbort([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Break();
    });
    connection_->SetOnRevoke([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->EndAll(kPolicyViolation, "the authorisation of this connection has ended");
      }
    });
    if (tap_ && !from_upstream_.empty() && !tap_->FromUpstream(from_upstream_.view())) {
      from_upstream_.Consume(from_upstream_.size());
      EndAll(kServerError, kTapped);
      return ToUpstream();
    }
    ToUpstream();
    ToClient();
  }

 private:
  void ToUpstream() {
    if (ended_) return;
    if (revoked_) connection_->input().Consume(connection_->input().size());
    if (connection_->input().empty()) {
      return connection_->ReadMore([self = shared_from_this()](int error) {
        if (error == 0) return self->ToUpstream();
        if (error != kEndOfStream) return self->Break();
        if (self->revoked_) return self->End(false);
        self->upstream_->ShutdownSend();
        self->EndDirection();
      });
    }
    const std::string_view input = connection_->input().view();
    if (tap_ && input.size() > tapped_ && !tap_->FromClient(input.substr(tapped_))) {
      EndAll(kServerError, kTapped);
      return ToUpstream();
    }
    tapped_ = input.size();
    upstream_->Write({input}, [self = shared_from_this()](int error, size_t n) {
      if (self->revoked_) return self->ToUpstream();
      if (error != 0) return self->Break();
      self->connection_->input().Consume(n);
      self->tapped_ -= n;
      self->ToUpstream();
    });
  }

  void ToClient() {
    if (ended_) return;
    if (revoked_) return SendClose();
    if (from_upstream_.empty()) {
      const Buffer::Space space = from_upstream_.Prepare(kTunnelRead);
      return upstream_->Read(
          space.data, space.size, [self = shared_from_this()](int error, size_t n) {
            if (self->revoked_) return;  // EndAll has sent the close frame
            self->from_upstream_.Commit(n);
            if (n > 0 && self->tap_ && !self->tap_->FromUpstream(self->from_upstream_.view())) {
              self->from_upstream_.Consume(n);
              return self->EndAll(kServerError, kTapped);
            }
            if (error == 0) return self->ToClient();
            if (error != kEndOfStream) return self->Break();
            self->connection_->stream().ShutdownSend();
            self->EndDirection();
          });
    }
    writing_ = true;
    connection_->stream().Write({from_upstream_.view()},
                                [self = shared_from_this()](int error, size_t n) {
                                  self->writing_ = false;
                                  if (error != 0) return self->Break();
                                  if (self->frames_) {
                                    self->frames_->Pass(self->from_upstream_.view().substr(0, n));
                                  }
                                  self->from_upstream_.Consume(n);
                                  self->ToClient();
                                });
  }

  // Ends both directions. The client of a WebSocket hears why.
  void EndAll(uint16_t code, std::string_view reason) {
    if (ended_ || std::exchange(revoked_, true)) return;
    close_code_ = code;
    close_reason_ = reason;
    if (!frames_ || directions_ended_ != 0) return Break();
    upstream_->Close();
    connection_->core().loop.After(kFarewellUs, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Break();
    });
    if (!writing_) SendClose();
  }

  void SendClose() {
    if (!frames_->between_frames()) return Break();
    AppendCloseFrame(&close_frame_, close_code_, close_reason_);
    connection_->stream().Write({close_frame_}, [self = shared_from_this()](int error, size_t) {
      if (error != 0) return self->Break();
      self->connection_->stream().ShutdownSend();
    });
  }

  void EndDirection() {
    if (++directions_ended_ == 2) End(false);
  }
  // Resets both sides, so that neither takes the break for an end.
  void Break() { End(true); }
  void End(bool reset) {
    if (std::exchange(ended_, true)) return;
    upstream_->Close();
    connection_->SetOnAbort(nullptr);
    connection_->SetOnRevoke(nullptr);
    connection_->Abort(reset);
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Stream> upstream_;
  Buffer from_upstream_;
  const std::shared_ptr<const void> held_;
  const std::shared_ptr<TunnelTap> tap_;  // null: nobody looks
  std::optional<FrameBoundary> frames_;   // frames that the client gets; none: no WebSocket
  size_t tapped_ = 0;                     // bytes of the client's input that the tap has seen
  uint16_t close_code_ = 0;
  std::string_view close_reason_;
  std::string close_frame_;
  int directions_ended_ = 0;
  bool writing_ = false;  // a write to the client is in flight
  bool revoked_ = false;  // both directions end
  bool ended_ = false;
};

}  // namespace

void StartTunnel(const std::shared_ptr<Connection>& connection, std::shared_ptr<Stream> upstream,
                 Buffer from_upstream, std::shared_ptr<const void> held,
                 std::shared_ptr<TunnelTap> tap, bool web_socket) {
  std::make_shared<Tunnel>(connection, std::move(upstream), std::move(from_upstream),
                           std::move(held), std::move(tap), web_socket)
      ->Start();
}

}  // namespace atl::http
