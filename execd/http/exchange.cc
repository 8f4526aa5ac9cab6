#include "execd/http/exchange.h"

#include "execd/http/connection.h"
#include "execd/http/json.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"
#include "runtime/http/serialize.h"

namespace atl::execd {
Exchange::Exchange(EventLoop* loop, Connection* connection, http::Head head)
    : loop_(*loop), connection_(connection), head_(std::move(head)) {
  if (!http::PercentDecode(raw_path(), &path_)) path_.clear();
  query_ = http::ParseQuery(raw_query());
}

std::string_view Exchange::raw_path() const {
  std::string_view target = head_.target;
  return target.substr(0, target.find('?'));
}

std::string_view Exchange::raw_query() const {
  std::string_view target = head_.target;
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

const std::string* Exchange::QueryValue(std::string_view name) const {
  for (const auto& [key, value] : query_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Exchange::ReadBody(size_t limit, std::function<void(std::string)> done) {
  if (closed()) return;
  if (head_.content_length && *head_.content_length > limit) {
    RespondError(413, "INVALID_REQUEST_BODY",
                 "request body of " + std::to_string(*head_.content_length) + " bytes: at most " +
                     std::to_string(limit) + " are taken here");
    return;
  }
  auto body = std::make_shared<std::string>();
  StreamBody(
      [this, body, limit](std::string_view piece) {
        if (body->size() + piece.size() <= limit) {
          body->append(piece);
        } else if (!started_) {
          RespondError(
              413, "INVALID_REQUEST_BODY",
              "request body: more than the " + std::to_string(limit) + " bytes taken here");
        }
      },
      [this, body, done = std::move(done)] {
        if (!started_) done(std::move(*body));
      });
}

void Exchange::StreamBody(std::function<void(std::string_view)> data, std::function<void()> end) {
  if (closed()) return;
  on_data_ = std::move(data);
  on_body_end_ = std::move(end);
}

void Exchange::PauseBody() {
  body_paused_ = true;
  if (!closed()) connection_->UpdateInterest();
}

void Exchange::ResumeBody() {
  if (!body_paused_) return;
  body_paused_ = false;
  if (closed()) return;
  connection_->UpdateInterest();
}

void Exchange::AppendHead(int status, const HeaderList& headers) {
  std::string& out = connection_->out_;
  http::AppendStatusLine(status, {}, &out);
  for (const auto& [name, value] : headers) http::AppendField(name, value, &out);
}

void Exchange::Respond(int status, std::string_view content_type, std::string_view body,
                       const HeaderList& headers) {
  if (closed() || started_) return;
  started_ = true;
  AppendHead(status, headers);
  std::string& out = connection_->out_;
  if (!content_type.empty()) http::AppendField("Content-Type", content_type, &out);
  if (!connection_->keep_alive_) out.append("Connection: close\r\n");
  if (status != 304) http::AppendNumberField("Content-Length", body.size(), &out);
  out.append("\r\n");
  if (head_.method != "HEAD" && status != 304) out.append(body);
  Finish();
}

void Exchange::RespondEmpty(int status) {
  Respond(status, {}, {});
}

void Exchange::RespondError(int status, std::string_view code, std::string_view message) {
  std::string body = "{\"code\":";
  AppendJsonString(&body, code);
  body.append(",\"message\":");
  AppendJsonString(&body, message);
  body.push_back('}');
  RespondJson(status, body);
}

void Exchange::RespondJson(int status, std::string_view body) {
  Respond(status, "application/json; charset=utf-8", body);
}

void Exchange::RespondText(int status, std::string_view text) {
  Respond(status, "text/plain; charset=utf-8", text);
}

void Exchange::RespondHead(int status, const HeaderList& headers, std::optional<uint64_t> length) {
  StartStream(status, headers, length ? &*length : nullptr);
  // Nothing may follow the head, not even the mark of an empty body.
  chunked_ = false;
  Finish();
}

void Exchange::StartStream(int status, const HeaderList& headers, const uint64_t* length) {
  if (closed() || started_) return;
  started_ = true;
  const bool bodyless = head_.method == "HEAD" || status == 204 || status == 304;
  chunked_ = length == nullptr && !head_.http_1_0 && !bodyless;
  if (length == nullptr && !chunked_ && !bodyless) connection_->keep_alive_ = false;
  AppendHead(status, headers);
  std::string& out = connection_->out_;
  if (length) http::AppendNumberField("Content-Length", *length, &out);
  if (chunked_) out.append("Transfer-Encoding: chunked\r\n");
  bool says_connection = false;
  for (const auto& header : headers)
    says_connection |= http::EqualNoCase(header.first, "connection");
  if (!connection_->keep_alive_ && !says_connection) out.append("Connection: close\r\n");
  out.append("\r\n");
  connection_->ScheduleFlush();
}

void Exchange::Write(std::string_view bytes) {
  if (closed() || finished_ || bytes.empty()) return;
  std::string& out = connection_->out_;
  if (chunked_) {
    http::AppendChunkSize(bytes.size(), &out);
    out.append(bytes).append("\r\n");
  } else {
    out.append(bytes);
  }
  connection_->ScheduleFlush();
}

void Exchange::WriteFile(UniqueFd fd, uint64_t offset, uint64_t length) {
  if (closed() || finished_) return;
  connection_->file_ = std::move(fd);
  connection_->file_offset_ = offset;
  connection_->file_left_ = length;
  connection_->ScheduleFlush();
}

void Exchange::Finish() {
  if (closed() || finished_) return;
  finished_ = true;
  if (chunked_) connection_->out_.append("0\r\n\r\n");
  if (raw_) connection_->close_after_flush_ = true;
  connection_->ScheduleFlush();
}

void Exchange::SwitchProtocol(std::string_view raw_head) {
  if (closed() || started_) return;
  started_ = true;
  raw_ = true;
  connection_->state_ = Connection::State::kRaw;
  connection_->SetDeadline(0);
  connection_->out_.append(raw_head);
  connection_->ScheduleFlush();
}

UniqueFd Exchange::TakeSocket() {
  if (closed() || started_) return {};
  return connection_->TakeSocket();
}

void Exchange::Abort() {
  if (closed()) return;
  connection_->broken_ = true;
  connection_->ScheduleFlush();
}

size_t Exchange::backlog() const {
  return closed() ? 0 : connection_->out_.size() - connection_->out_sent_;
}

void Exchange::OnClosed(std::function<void()> callback) {
  on_closed_ = std::move(callback);
  // The connection is gone and would not call it. Without the call, callbacks that hold this
  // exchange would never be dropped.
  if (on_closed_ && closed()) loop_.Post([self = shared_from_this()] { self->TellClosed(); });
}

void Exchange::TellClosed() {
  auto closed = finished() ? nullptr : std::move(on_closed_);
  DropCallbacks();
  if (closed) closed();
}

void Exchange::DropCallbacks() {
  // Moved out first, because a destructor among the captures may call this exchange.
  auto data = std::move(on_data_);
  auto end = std::move(on_body_end_);
  auto writable = std::move(on_writable_);
  auto closed = std::move(on_closed_);
  on_data_ = nullptr;
  on_body_end_ = on_writable_ = on_closed_ = nullptr;
}

}  // namespace atl::execd
