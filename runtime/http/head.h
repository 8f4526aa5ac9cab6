// The head of a message (RFC 9112 sections 2 to 6), read strictly.
//
// Two parties that disagree on where a message ends let a third one smuggle requests, so everything
// that parsers are known to disagree on is refused, never mended: a line end other than CRLF, a
// folded line, a blank before the colon, a second Content-Length, Content-Length beside
// Transfer-Encoding, a transfer coding other than exactly "chunked", a second Host, a Host that
// is not the target's. The daemon, execd and the splice proxy read with this and body.h alone.
//
// Thread rule: values and pure functions. Input is hostile on both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::http {

// More fields than this in one head are refused, however short they are.
inline constexpr size_t kMaxHeaderFields = 256;

// Where the body ends.
struct Framing {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  uint64_t length = 0;  // of kLength
};

struct RequestHead {
  Request request;
  bool http_1_0 = false;
  bool keep_alive = true;
  bool expect_continue = false;
  // "Connection: upgrade" with an Upgrade field and without a body.
  bool upgrade = false;
  Framing body;
};

// Interim responses (1xx) of a server to one request. A server that works for an hour says
// "102 Processing" every 20 s or so.
inline constexpr int kMaxInterimHeads = 256;

struct ResponseHead {
  int status = 0;
  std::string reason;
  Headers headers;
  bool keep_alive = true;
  Framing body;
};

// What to answer to a request that cannot be read.
struct HeadError {
  int status;
  const char* message;
};

// Finds the end of a head in bytes that arrive piecemeal; each byte is looked at once.
class HeadScanner {
 public:
  enum class State { kMore, kComplete, kBad };
  // `bytes` is everything received of this head so far (and perhaps of what follows it).
  State Scan(std::string_view bytes);
  // After kComplete: the size of the head with its blank line.
  size_t size() const { return next_; }
  void Reset() { next_ = 0; }

 private:
  size_t next_ = 0;
};

// `head` ends with the blank line. An absolute target ("http://host/path") is reduced to its path;
// its host is the one of the Host field, which HTTP/1.0 may leave out and then gets from it.
tl::expected<RequestHead, HeadError> ParseRequestHead(std::string_view head);

struct StatusLine {
  int status = 0;  // 100 to 999
  bool http_1_0 = false;
  std::string_view reason;
};
// `line` without its end; nothing if it is malformed.
std::optional<StatusLine> ParseStatusLine(std::string_view line);

// `to_head` says that the request was a HEAD: the answer has no body whatever its fields say.
Result<ResponseHead> ParseResponseHead(std::string_view head, bool to_head);

// Whether the fields can be written without changing the meaning of the message.
bool ValidField(std::string_view name, std::string_view value);
// Visible ASCII without '#', not empty.
bool ValidTarget(std::string_view target);

// Whether a field `name`, however often it comes, lists `element`; compared without case.
bool Lists(const Headers& headers, std::string_view name, std::string_view element);

// Whether `name` concerns only one connection: the fixed hop-by-hop fields of RFC 9110 section
// 7.6.1, and those that `headers` names in Connection.
bool IsHopByHop(const Headers& headers, std::string_view name);

}  // namespace atl::http
