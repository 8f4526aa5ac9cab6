#include "runtime/http/response_stream.h"

#include <utility>

#include "runtime/http/ascii.h"
#include "runtime/http/connection.h"
#include "runtime/http/serialize.h"

namespace atl::http {
namespace {

// The part that runs on the connection. Its own operations keep it alive: the read that waits for
// the client's end, and the write in flight.
class Streaming : public std::enable_shared_from_this<Streaming> {
 public:
  Streaming(std::shared_ptr<Connection> connection, const Response& head)
      : connection_(std::move(connection)) {
    const RequestHead& request = connection_->head();
    chunked_ = !request.http_1_0;
    // HTTP/1.0 has no chunks, so the end of the connection is the end of the body.
    keep_client_ = chunked_ && request.keep_alive && !connection_->stopping();
    AppendStatusLine(head.status, {}, &unsent_);
    unsent_.append(DateField());
    for (const Header& header : head.headers.list) {
      if (EqualNoCase(header.name, "content-length") || !ValidField(header.name, header.value)) {
        continue;
      }
      AppendField(header.name, header.value, &unsent_);
    }
    if (chunked_) AppendField("Transfer-Encoding", "chunked", &unsent_);
    if (!keep_client_) AppendField("Connection", "close", &unsent_);
    unsent_.append("\r\n");
  }

  void Start() {
    connection_->SetOnAbort([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Gone();
    });
    WatchClient();
    Flush();
  }

  void Write(std::string_view bytes) {
    if (ended_ || finished_ || bytes.empty()) return;
    if (chunked_) AppendChunkSize(bytes.size(), &unsent_);
    unsent_.append(bytes);
    if (chunked_) unsent_.append("\r\n");
    Flush();
  }

  void Finish() {
    if (ended_ || std::exchange(finished_, true)) return;
    if (chunked_) unsent_.append("0\r\n\r\n");
    Flush();
  }

  // Called when the producer is gone without Finish.
  void Abandon() {
    if (ended_ || finished_) return;
    End();
    connection_->Abort(!chunked_);
  }

  // Zero after the end: what is still held, until its last write completes, will not reach anybody.
  size_t backlog() const { return ended_ ? 0 : unsent_.size() + sending_.size(); }
  bool ended() const { return ended_; }
  void SetOnEvents(std::function<void()> drained, std::function<void()> closed) {
    if (ended_) {
      // The client had gone before the producer set its callbacks.
      if (closed && !finished_) connection_->core().loop.Post(std::move(closed));
      return;
    }
    drained_ = std::move(drained);
    closed_ = std::move(closed);
  }

 private:
  // Reads ahead only to notice the client's end.
  void WatchClient() {
    connection_->ReadMore([self = shared_from_this()](int error) {
      if (self->ended_) return;
      if (error != 0) return self->connection_->Abort(false);
      // Beyond that limit, the next write notices the client's end.
      if (self->connection_->input().size() < Connection::kMaxReadAhead) self->WatchClient();
    });
  }

  void Flush() {
    if (!sending_.empty() || ended_) return;
    if (unsent_.empty()) {
      if (finished_) Complete();
      return;
    }
    sending_ = std::exchange(unsent_, {});
    // The producer, and everything that it holds, waits for this client.
    connection_->ExpectProgress();
    connection_->stream().Write(
        {sending_},
        [self = shared_from_this()](int error, size_t) {
          if (self->ended_) return;
          self->connection_->ClearDeadline();
          if (error != 0) return self->connection_->Abort(false);
          self->sending_ = {};
          self->Flush();
          if (self->backlog() == 0 && !self->ended_ && self->drained_) {
            const auto call = self->drained_;
            call();
          }
        },
        [this] { connection_->ExpectProgress(); });
  }

  void Complete() {
    End();
    connection_->ForgetRead();
    connection_->ResponseWritten(keep_client_);
  }

  void Gone() {
    if (ended_) return;
    const auto closed = closed_;
    End();
    if (closed) closed();
  }

  void End() {
    ended_ = true;
    drained_ = closed_ = nullptr;
    connection_->SetOnAbort(nullptr);
  }

  const std::shared_ptr<Connection> connection_;
  bool chunked_ = true;
  bool keep_client_ = false;
  bool finished_ = false;  // the producer has written the last byte
  bool ended_ = false;
  std::string unsent_;
  std::string sending_;
  std::function<void()> drained_, closed_;
};

// The producer's handle. Its destruction ends the answer.
class StreamHandle final : public ResponseStream {
 public:
  explicit StreamHandle(std::shared_ptr<Streaming> streaming) : streaming_(std::move(streaming)) {}
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  ~StreamHandle() override { streaming_->Abandon(); }

  void Write(std::string bytes) override { streaming_->Write(bytes); }
  void Finish() override { streaming_->Finish(); }
  size_t backlog() const override { return streaming_->backlog(); }
  bool closed() const override { return streaming_->ended(); }
  void OnEvents(std::function<void()> drained, std::function<void()> closed) override {
    streaming_->SetOnEvents(std::move(drained), std::move(closed));
  }

 private:
  std::shared_ptr<Streaming> streaming_;
};

}  // namespace

std::shared_ptr<ResponseStream> StartResponseStream(const std::shared_ptr<Connection>& connection,
                                                    Response head) {
  auto streaming = std::make_shared<Streaming>(connection, head);
  streaming->Start();
  return std::make_shared<StreamHandle>(std::move(streaming));
}

}  // namespace atl::http
