#include "runtime/http/exchange.h"

#include <cerrno>
#include <string>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/http/connection.h"
#include "runtime/http/forward.h"
#include "runtime/http/response_stream.h"
#include "runtime/http/serialize.h"

namespace atl::http {
namespace {

Error TooLarge(uint64_t limit) {
  return {Code::kResourceExhausted,
          "the request body is larger than " + std::to_string(limit) + " bytes"};
}

// Detects a body that is announced as too large, so that it is refused before it is sent.
bool AnnouncesMoreThan(const Connection& connection, uint64_t limit) {
  const Framing& body = connection.head().body;
  return body.kind == Framing::Kind::kLength && body.length > limit;
}

struct BodyReader : std::enable_shared_from_this<BodyReader> {
  explicit BodyReader(std::shared_ptr<Connection> the_connection)
      : connection(std::move(the_connection)), party(connection->authority()) {}
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;
  ~BodyReader() { connection->core().bodies.Return(party, counted); }

  const std::shared_ptr<Connection> connection;
  const std::string party;
  size_t counted = 0;  // bytes taken from ServerCore::bodies
  size_t limit;
  std::function<void(Result<std::string>)> done;
  std::string body;

  void Next() {
    connection->NextPiece([self = shared_from_this()](Result<Connection::Piece> piece) {
      if (!piece) return self->done(Fail(std::move(piece).error()));
      if (piece->bytes.size() > self->limit - self->body.size()) {
        self->connection->DropAfterResponse();
        return self->done(Fail(TooLarge(self->limit)));
      }
      if (!self->connection->core().bodies.Take(self->party, self->counted, piece->bytes.size())) {
        self->connection->DropAfterResponse();
        return self->done(
            Fail(Error(Code::kResourceExhausted,
                       "too many request bodies are arriving; try again later", ENOMEM)));
      }
      self->counted += piece->bytes.size();
      self->body.append(piece->bytes);
      self->connection->WipePiece();
      if (piece->last) return self->done(std::move(self->body));
      self->Next();
    });
  }
};

// Writes to a file go through the pool: write(2) blocks while the kernel throttles processes that
// dirty pages faster than the disk writes them.
struct BodySaver : std::enable_shared_from_this<BodySaver> {
  std::shared_ptr<Connection> connection;
  int fd;
  uint64_t limit;
  std::function<void(Result<uint64_t>)> done;
  uint64_t saved = 0;
  Status write_status;

  void Next() {
    connection->NextPiece([self = shared_from_this()](Result<Connection::Piece> piece) {
      if (!piece) return self->done(Fail(std::move(piece).error()));
      if (piece->bytes.size() > self->limit - self->saved) {
        self->connection->DropAfterResponse();
        return self->done(Fail(TooLarge(self->limit)));
      }
      self->Write(*piece);
    });
  }

  // The piece is in the connection's buffer, which does not change until the next call.
  void Write(Connection::Piece piece) {
    if (piece.bytes.empty()) return Written(piece);
    connection->core().loop.RunBlocking(
        [self = shared_from_this(), piece] {
          self->write_status = sys::WriteAll(self->fd, piece.bytes);
        },
        [self = shared_from_this(), piece] { self->Written(piece); });
  }

  void Written(Connection::Piece piece) {
    if (!write_status) {
      connection->DropAfterResponse();
      return done(Fail(std::move(write_status).error().Wrap("save request body")));
    }
    saved += piece.bytes.size();
    if (piece.last) return done(saved);
    Next();
  }
};

}  // namespace

ExchangeImpl::ExchangeImpl(std::shared_ptr<Connection> connection, Request request)
    : connection_(std::move(connection)), request_(std::move(request)) {}

ExchangeImpl::~ExchangeImpl() {
  if (answered_) return;
  connection_->Respond(ErrorResponse(500, "GENERAL::INTERNAL_ERROR", "internal error"));
}

void ExchangeImpl::SetAuthority(std::string authority) {
  if (!answered_) connection_->SetAuthority(std::move(authority));
}

void ExchangeImpl::ReadBody(size_t limit, std::function<void(Result<std::string>)> done) {
  if (AnnouncesMoreThan(*connection_, limit)) {
    connection_->DropAfterResponse();
    return done(Fail(TooLarge(limit)));
  }
  auto reader = std::make_shared<BodyReader>(connection_);
  reader->limit = limit;
  reader->done = std::move(done);
  reader->Next();
}

void ExchangeImpl::SaveBody(int fd, uint64_t limit, std::function<void(Result<uint64_t>)> done) {
  if (AnnouncesMoreThan(*connection_, limit)) {
    connection_->DropAfterResponse();
    return done(Fail(TooLarge(limit)));
  }
  auto saver = std::make_shared<BodySaver>();
  saver->connection = connection_;
  saver->fd = fd;
  saver->limit = limit;
  saver->done = std::move(done);
  saver->Next();
}

void ExchangeImpl::Respond(Response response) {
  if (std::exchange(answered_, true)) return;
  connection_->Respond(std::move(response));
}

std::shared_ptr<ResponseStream> ExchangeImpl::Stream(Response head) {
  if (std::exchange(answered_, true)) return nullptr;
  if (connection_->revoked()) connection_->Abort(true);
  return StartResponseStream(connection_, std::move(head));
}

void ExchangeImpl::Forward(Upstream upstream) {
  if (std::exchange(answered_, true)) return;
  if (connection_->revoked()) return connection_->Abort(true);
  StartForwarding(connection_, request_, std::move(upstream));
}

}  // namespace atl::http
