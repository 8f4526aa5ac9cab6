#include "runtime/http/tunnel.h"

#include <utility>

#include "runtime/http/connection.h"

namespace atl::http {
namespace {

constexpr size_t kTunnelRead = 16 << 10;

class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  Tunnel(std::shared_ptr<Connection> connection, std::shared_ptr<Stream> upstream,
         Buffer from_upstream, std::shared_ptr<const void> held)
      : connection_(std::move(connection)),
        upstream_(std::move(upstream)),
        from_upstream_(std::move(from_upstream)),
        held_(std::move(held)) {}

  void Start() {
    connection_->ForgetRead();
    connection_->SetOnAbort([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Break();
    });
    ToUpstream();
    ToClient();
  }

 private:
  void ToUpstream() {
    if (ended_) return;
    if (connection_->input().empty()) {
      return connection_->ReadMore([self = shared_from_this()](int error) {
        if (error == 0) return self->ToUpstream();
        if (error != kEndOfStream) return self->Break();
        self->upstream_->ShutdownSend();
        self->EndDirection();
      });
    }
    upstream_->Write({connection_->input().view()},
                     [self = shared_from_this()](int error, size_t n) {
                       if (error != 0) return self->Break();
                       self->connection_->input().Consume(n);
                       self->ToUpstream();
                     });
  }

  void ToClient() {
    if (ended_) return;
    if (from_upstream_.empty()) {
      const Buffer::Space space = from_upstream_.Prepare(kTunnelRead);
      return upstream_->Read(space.data, space.size,
                             [self = shared_from_this()](int error, size_t n) {
                               self->from_upstream_.Commit(n);
                               if (error == 0) return self->ToClient();
                               if (error != kEndOfStream) return self->Break();
                               self->connection_->stream().ShutdownSend();
                               self->EndDirection();
                             });
    }
    connection_->stream().Write({from_upstream_.view()},
                                [self = shared_from_this()](int error, size_t n) {
                                  if (error != 0) return self->Break();
                                  self->from_upstream_.Consume(n);
                                  self->ToClient();
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
    connection_->Abort(reset);
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Stream> upstream_;
  Buffer from_upstream_;
  const std::shared_ptr<const void> held_;
  int directions_ended_ = 0;
  bool ended_ = false;
};

}  // namespace

void StartTunnel(const std::shared_ptr<Connection>& connection, std::shared_ptr<Stream> upstream,
                 Buffer from_upstream, std::shared_ptr<const void> held) {
  std::make_shared<Tunnel>(connection, std::move(upstream), std::move(from_upstream),
                           std::move(held))
      ->Start();
}

}  // namespace atl::http
