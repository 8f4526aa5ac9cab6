// A strict parser of message heads (RFC 9112 sections 2 to 6).
//
// If two parsers disagree about the end of a message, an attacker can smuggle requests. Therefore
// everything that parsers are known to treat differently is refused and never repaired: a line end
// other than CRLF, a folded line, a blank before the colon, a second Content-Length, Content-Length
// beside Transfer-Encoding, a transfer coding other than exactly "chunked", a second Host, a Host
// that differs from the target's. The daemon, execd and the splice proxy use only this parser and
// body.h.
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

// Most fields of one head, however short they are.
inline constexpr size_t kMaxHeaderFields = 256;

// The rule by which the body of a message ends.
struct Framing {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  uint64_t length = 0;  // valid for kLength
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

// Most interim responses (1xx) to one request. A server that works for an hour sends "102
// Processing" every 20 s or so.
inline constexpr int kMaxInterimHeads = 256;

struct ResponseHead {
  int status = 0;
  std::string reason;
  Headers headers;
  bool keep_alive = true;
  Framing body;
};

// The answer to a request that cannot be parsed.
struct HeadError {
  int status;
  const char* message;
};

// Finds the end of a head in bytes that arrive in pieces. Looks at each byte once.
class HeadScanner {
 public:
  enum class State { kMore, kComplete, kBad };
  // `bytes`: everything received of this head so far, and perhaps of what follows it.
  State Scan(std::string_view bytes);
  // The size of the head with its blank line. Valid after kComplete.
  size_t size() const { return next_; }
  void Reset() { next_ = 0; }

 private:
  size_t next_ = 0;
};

// Parses `head`, which ends with the blank line. An absolute target ("http://host/path") is reduced
// to its path. Its host must equal the Host field; HTTP/1.0 may omit that field, and then it is set
// from the target.
tl::expected<RequestHead, HeadError> ParseRequestHead(std::string_view head);

struct StatusLine {
  int status = 0;  // 100 to 999
  bool http_1_0 = false;
  std::string_view reason;
};
// Parses `line`, without its line end. Empty if it is malformed.
std::optional<StatusLine> ParseStatusLine(std::string_view line);

// `to_head`: the request was a HEAD, so the answer has no body whatever its fields say.
Result<ResponseHead> ParseResponseHead(std::string_view head, bool to_head);

// Returns true if the field can be written without changing the meaning of the message.
bool ValidField(std::string_view name, std::string_view value);
// Accepts visible ASCII without '#', not empty.
bool ValidTarget(std::string_view target);

// Returns true if a field `name`, which may occur several times, lists `element`, ignoring case.
bool Lists(const Headers& headers, std::string_view name, std::string_view element);

// Returns true for fields that concern only one connection: the hop-by-hop fields of RFC 9110
// section 7.6.1, and those that `headers` lists in Connection.
bool IsHopByHop(const Headers& headers, std::string_view name);

}  // namespace atl::http
