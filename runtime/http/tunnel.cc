#include "runtime/http/tunnel.h"

#include <boost/asio/write.hpp>
#include <utility>

#include "runtime/http/connection.h"

namespace atl::http {
namespace {

constexpr size_t kReadSize = 16 << 10;

class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  Tunnel(std::shared_ptr<Connection> connection, Stream upstream, Buffer from_upstream)
      : connection_(std::move(connection)),
        upstream_(std::move(upstream)),
        from_upstream_(std::move(from_upstream)) {}

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
      return connection_->ReadMore([self = shared_from_this()](const ErrorCode& error) {
        if (!error) return self->ToUpstream();
        if (error != asio::error::eof) return self->Break();
        ErrorCode ignored;
        self->upstream_.shutdown(Stream::shutdown_send, ignored);
        self->EndDirection();
      });
    }
    const std::string_view bytes = connection_->input().view();
    asio::async_write(upstream_, asio::buffer(bytes.data(), bytes.size()),
                      [self = shared_from_this()](const ErrorCode& error, size_t n) {
                        if (error) return self->Break();
                        self->connection_->input().Consume(n);
                        self->ToUpstream();
                      });
  }

  void ToClient() {
    if (ended_) return;
    if (from_upstream_.empty()) {
      const Buffer::Space space = from_upstream_.Prepare(kReadSize);
      return upstream_.async_read_some(
          asio::buffer(space.data, space.size),
          [self = shared_from_this()](const ErrorCode& error, size_t n) {
            self->from_upstream_.Commit(n);
            if (!error) return self->ToClient();
            if (error != asio::error::eof) return self->Break();
            self->connection_->stream().ShutdownSend();
            self->EndDirection();
          });
    }
    asio::async_write(connection_->stream(),
                      asio::buffer(from_upstream_.data(), from_upstream_.size()),
                      [self = shared_from_this()](const ErrorCode& error, size_t n) {
                        if (error) return self->Break();
                        self->from_upstream_.Consume(n);
                        self->ToClient();
                      });
  }

  void EndDirection() {
    if (++directions_ended_ == 2) End(false);
  }
  // A reset, so that neither side takes the break for an end.
  void Break() { End(true); }
  void End(bool reset) {
    if (std::exchange(ended_, true)) return;
    ErrorCode ignored;
    upstream_.close(ignored);
    connection_->SetOnAbort(nullptr);
    connection_->Abort(reset);
  }

  std::shared_ptr<Connection> connection_;
  Stream upstream_;
  Buffer from_upstream_;
  int directions_ended_ = 0;
  bool ended_ = false;
};

}  // namespace

void StartTunnel(const std::shared_ptr<Connection>& connection, Stream upstream,
                 Buffer from_upstream) {
  std::make_shared<Tunnel>(connection, std::move(upstream), std::move(from_upstream))->Start();
}

}  // namespace atl::http
