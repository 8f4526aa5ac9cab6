// One request and its answer, as a handler sees them.
//
// A handler answers with Respond, or with StartStream, any number of Write, and Finish, immediately
// or later. An exchange outlives its connection: after a disconnect every call is a no-op and
// closed() is true, so that producers of output need no check. All callbacks are dropped when the
// answer is finished or the connection has closed. So a callback that holds its own exchange is no
// leak.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/parser.h"

namespace atl::execd {

class Connection;

using HeaderList = std::vector<std::pair<std::string, std::string>>;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(EventLoop* loop, Connection* connection, http::Head head);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const http::Head& head() const { return head_; }
  // The path of the target, undecoded. path() returns it decoded, or empty if an escape is
  // malformed.
  std::string_view raw_path() const;
  std::string_view raw_query() const;
  const std::string& path() const { return path_; }
  // Decoded name=value pairs of the query, in order.
  const std::vector<std::pair<std::string, std::string>>& query() const { return query_; }
  // Returns the first value of that name, or null if it is absent.
  const std::string* QueryValue(std::string_view name) const;
  // Parts of the path that matched the {} of the route.
  std::vector<std::string> parameters;

  // --- Request body. If the handler calls neither function, the body is discarded. Reads the whole
  // body and calls `done`. A body of more than `limit` bytes is answered with 413, and `done` is
  // not called.
  void ReadBody(size_t limit, std::function<void(std::string body)> done);
  // Calls `data` for each piece as it arrives, then `end` once. After SwitchProtocol, delivers the
  // bytes of the byte pipe.
  void StreamBody(std::function<void(std::string_view piece)> data, std::function<void()> end);
  // Back-pressure: stops reading from the connection. Up to 64 KiB that were already read are still
  // delivered.
  void PauseBody();
  void ResumeBody();

  // --- Answer.
  void Respond(int status, std::string_view content_type, std::string_view body,
               const HeaderList& headers = {});
  // Answers with Content-Length: 0.
  void RespondEmpty(int status = 200);
  // Answers {"code": …, "message": …}.
  void RespondError(int status, std::string_view code, std::string_view message);
  void RespondJson(int status, std::string_view body);
  void RespondText(int status, std::string_view text);
  // Answers with a head only (HEAD, 204, 304) and the Content-Length that the body would have.
  void RespondHead(int status, const HeaderList& headers, std::optional<uint64_t> length);
  // Begins a streamed answer. The head is sent with the first Write or Finish. `length` is the size
  // of the body; without it the body is chunked, or in HTTP/1.0 ends with the connection.
  void StartStream(int status, const HeaderList& headers, const uint64_t* length = nullptr);
  void Write(std::string_view bytes);
  // Sends `length` bytes of the file after everything written so far. Call at most once, before
  // Finish.
  void WriteFile(UniqueFd fd, uint64_t offset, uint64_t length);
  void Finish();
  // Sends `raw_head` unchanged and makes the connection a byte pipe: StreamBody delivers what the
  // peer sends, Write sends raw bytes, and Finish closes the connection after the last byte.
  void SwitchProtocol(std::string_view raw_head);
  // Returns the connection's socket, for a protocol that execd does not carry itself. Returns an
  // invalid descriptor if the connection has closed or an answer has begun. Replaces the answer. Do
  // not call from within the handler.
  UniqueFd TakeSocket();
  // Closes the connection at once, because the answer cannot be completed and the peer must notice.
  void Abort();

  // Bytes written and not yet accepted by the peer. Producers stop above kHighWater.
  size_t backlog() const;
  static constexpr size_t kHighWater = 256 << 10;
  // Called each time the backlog falls to half of kHighWater after it was above kHighWater.
  void OnWritable(std::function<void()> callback) { on_writable_ = std::move(callback); }
  // Called once if the connection closes before the answer is finished. If it has already closed,
  // the loop calls it soon.
  void OnClosed(std::function<void()> callback);

  bool started() const { return started_; }
  bool finished() const { return finished_; }
  bool closed() const { return connection_ == nullptr; }

 private:
  friend class Connection;
  void DropCallbacks();
  void TellClosed();
  void AppendHead(int status, const HeaderList& headers);

  EventLoop& loop_;
  Connection* connection_;  // null once closed or finished
  http::Head head_;
  std::string path_;
  std::vector<std::pair<std::string, std::string>> query_;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_body_end_, on_writable_, on_closed_;
  bool started_ = false, finished_ = false, chunked_ = false, raw_ = false;
  bool body_paused_ = false;
};

}  // namespace atl::execd
