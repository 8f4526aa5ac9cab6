// A parser for messages that arrive in pieces, for programs that do their own I/O (execd). It uses
// the grammar of head.h and body.h, like the daemon and the splice proxy. Nothing is repaired, so
// no two programs disagree about the end of a message.
//
// Thread rule: none, one owner. Input is hostile on both sides.
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
  // Members of a request. An absolute target has been reduced to its path, see head.h.
  std::string method;
  std::string target;
  bool http_1_0 = false;
  // Members of a response.
  int status = 0;

  Headers headers;
  // The value of Content-Length. An answer to HEAD may have one without a body.
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  // follows from the version and Connection

  // Returns the first value of that name, ignoring case. Null if there is none.
  const std::string* Find(std::string_view name) const;
};

class Parser {
 public:
  enum class Kind { kRequest, kResponse };
  // Gets each piece of the body, without chunk framing.
  class BodySink {
   public:
    virtual ~BodySink() = default;
    virtual void OnBody(std::string_view piece) = 0;
  };

  // kResourceExhausted: a head of more than `head_limit` bytes. Chunk lines and trailers have the
  // bounds of body.h.
  Parser(Kind kind, size_t head_limit) : kind_(kind), head_limit_(head_limit) {}

  // Call before Feed if the request was a HEAD: the answer has no body, whatever its head says.
  void SkipBody() { to_head_ = true; }

  // Consumes a part of `data` and returns its size. Offer the rest again with more behind it,
  // because a head is consumed only as a whole. Stops once at the end of the head, so that the
  // caller can set things up, and at the end of the message. Consumed bytes are overwritten,
  // because framing is removed in place. An error is final.
  Result<size_t> Feed(char* data, size_t size, BodySink* sink);
  // Call when the connection has ended: completes a body that ends with it. Fails if something is
  // missing.
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
