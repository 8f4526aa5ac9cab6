// A message that arrives piecemeal, for those who read it themselves (execd is a static
// program): the grammar of head.h and body.h, which is the daemon's and the splice proxy's too.
//
// Nothing is repaired, so no two parties can disagree about where a message ends. Thread rule:
// none, one owner. Input is hostile on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/body.h"
#include "runtime/http/head.h"
#include "runtime/http/message.h"

namespace atl::http {

struct Head {
  // Of a request. An absolute target has been reduced to its path, as head.h says.
  std::string method;
  std::string target;
  bool http_1_0 = false;
  // Of a response.
  int status = 0;

  Headers headers;
  // As the field says it: the answer to a HEAD may have one, and no body.
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  // by version and Connection

  // The first value of that name, compared without case; null if there is none.
  const std::string* Find(std::string_view name) const;
};

class Parser {
 public:
  enum class Kind { kRequest, kResponse };
  // Called with each piece of the body, chunk framing removed.
  class BodySink {
   public:
    virtual ~BodySink() = default;
    virtual void OnBody(std::string_view piece) = 0;
  };

  // A head of more than `head_limit` bytes is kResourceExhausted; chunk lines and trailers have the
  // bounds of body.h.
  Parser(Kind kind, size_t head_limit) : kind_(kind), head_limit_(head_limit) {}

  // For the answer to a HEAD request: there is no body, whatever its head says. Before any Feed.
  void SkipBody() { to_head_ = true; }

  // Takes in what it can of `data` and returns how much that was; the rest must be offered again,
  // with more behind it: a head is taken in whole. Stops at the end of the head (once), so that the
  // caller can look at it and set things up, and at the end of the message. What was taken in is
  // overwritten (framing is removed in place). An error is final.
  Result<size_t> Feed(char* data, size_t size, BodySink* sink);
  // The connection has ended: completes a body that ends with it; an error if something is missing.
  Status FeedEof();

  bool head_done() const { return head_done_; }
  bool done() const { return head_done_ && (ended_ || decoder_.done()); }
  // True if the body ends with the connection.
  bool until_eof() const { return until_eof_; }
  const Head& head() const { return head_; }

 private:
  Result<size_t> FeedHead(std::string_view bytes);
  Status TakeHead(std::string_view bytes);

  Kind kind_;
  size_t head_limit_;
  HeadScanner scanner_;
  BodyDecoder decoder_;
  Head head_;
  bool to_head_ = false;
  bool head_done_ = false;
  bool until_eof_ = false;
  bool ended_ = false;
};

}  // namespace atl::http
