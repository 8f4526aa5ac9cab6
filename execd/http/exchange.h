// One request and its answer, as a route handler sees them.
//
// A handler answers with Respond, or with StartStream, any number of Write, and Finish; at once or
// later. An exchange outlives its connection: after a disconnect every call is a no-op and closed()
// is true, so that whoever produces output need not care. All callbacks are dropped when the answer
// is finished or the connection is gone; holding the exchange from its own callbacks is therefore
// no leak.
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
  // The target's path, as it came; and decoded (empty if an escape is malformed).
  std::string_view raw_path() const;
  std::string_view raw_query() const;
  const std::string& path() const { return path_; }
  // name=value pairs of the query, decoded, in order.
  const std::vector<std::pair<std::string, std::string>>& query() const { return query_; }
  // The first value of that name; null if absent.
  const std::string* QueryValue(std::string_view name) const;
  // Parts of the path that the route's {…} matched.
  std::vector<std::string> parameters;

  // --- Request body. Without one of these the body is discarded.
  // The whole body. More than `limit` bytes are answered with 413 here, `done` is then not called.
  void ReadBody(size_t limit, std::function<void(std::string body)> done);
  // Pieces as they arrive, then `end` once. Also the bytes after an Upgrade.
  void StreamBody(std::function<void(std::string_view piece)> data, std::function<void()> end);
  // Back-pressure: while paused nothing is read from the connection (what was read already, at most
  // 64 KiB, is still delivered).
  void PauseBody();
  void ResumeBody();

  // --- Answer.
  void Respond(int status, std::string_view content_type, std::string_view body,
               const HeaderList& headers = {});
  // 200 with Content-Length: 0.
  void RespondEmpty(int status = 200);
  // {"code": …, "message": …}
  void RespondError(int status, std::string_view code, std::string_view message);
  void RespondJson(int status, std::string_view body);
  void RespondText(int status, std::string_view text);
  // A head alone (HEAD, 204, 304), with the Content-Length that the body would have.
  void RespondHead(int status, const HeaderList& headers, std::optional<uint64_t> length);
  // The head is sent with the first Write or Finish. With `length` the body has that size, without
  // it is chunked (HTTP/1.0: ends with the connection).
  void StartStream(int status, const HeaderList& headers, const uint64_t* length = nullptr);
  void Write(std::string_view bytes);
  // `length` bytes of the file, after everything written so far; once, before Finish.
  void WriteFile(UniqueFd fd, uint64_t offset, uint64_t length);
  void Finish();
  // Sends this head as it is; from here on the connection is a byte pipe: StreamBody delivers what
  // the peer sends, Write sends raw, Finish closes after the last byte.
  void SwitchProtocol(std::string_view raw_head);
  // The connection's socket, for a protocol that is not ours to carry; nothing if it has been
  // closed. Instead of an answer, and not from within the handler.
  UniqueFd TakeSocket();
  // Drops the connection at once: the answer cannot be completed (the peer must notice).
  void Abort();

  // Bytes written and not yet taken by the peer. Producers stop above kHighWater.
  size_t backlog() const;
  static constexpr size_t kHighWater = 256 << 10;
  // Called when the backlog has fallen to half of kHighWater, each time after it was above.
  void OnWritable(std::function<void()> callback) { on_writable_ = std::move(callback); }
  // Called once if the connection ends before the answer does; from the loop soon if it has ended
  // already.
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
