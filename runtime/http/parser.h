// The HTTP/1.x grammar, without I/O: bytes in, a head and body pieces out. Boost.Beast's parser
// behind our own type, for those who cannot have an event loop of Asio (execd is a static program).
//
// Strictness: a head over the limit, a bad method, target, header name or value, Content-Length
// together with Transfer-Encoding, or two different lengths are errors; nothing is repaired, so no
// two parties can disagree about where a message ends. Thread rule: none, one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl::http {

struct Head {
  // Request: as it came.
  std::string method;
  std::string target;
  // Response.
  int status = 0;
  std::string reason;

  int version = 11;  // 10 or 11
  std::vector<std::pair<std::string, std::string>> headers;
  // Neither is set for a message without a body, or for a response that ends with its connection.
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  // by version and Connection
  bool upgrade = false;    // Connection holds "upgrade"

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

  // `header_limit` bounds the head, and the trailers and each chunk's line as well.
  Parser(Kind kind, size_t header_limit);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  // For the answer to a HEAD request: there is no body, whatever its head says. Before any Feed.
  void SkipBody();

  // Takes in what it can of `bytes` and returns how much that was; the rest must be offered again
  // with more behind it. Stops at the end of the head (once), so that the caller can look at it and
  // set things up, and at the end of the message. An error is final.
  Result<size_t> Feed(std::string_view bytes, BodySink* sink);
  // The connection has ended: completes a body that ends with it; an error if something is missing.
  Status FeedEof(BodySink* sink);

  bool head_done() const;
  bool done() const;
  // True if the body ends with the connection.
  bool until_eof() const;
  const Head& head() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::http
