#include "runtime/http/parser.h"

#include <charconv>
#include <utility>

#include "runtime/http/ascii.h"

namespace atl::http {
namespace {

Error Refused(const HeadError& error) {
  const Code code = error.status == 431 ? Code::kResourceExhausted : Code::kInvalidArgument;
  return Error(code, std::string("HTTP message: ") + error.message);
}

}  // namespace

const std::string* Head::Find(std::string_view name) const {
  for (const Header& header : headers.list) {
    if (EqualNoCase(header.name, name)) return &header.value;
  }
  return nullptr;
}

Result<size_t> Parser::Feed(char* data, size_t size, BodySink* sink) {
  if (!head_done_) return FeedHead({data, size});
  if (done()) return 0;
  ATOLL_ASSIGN(const BodyDecoder::Decoded decoded, decoder_.Decode(data, size));
  if (decoded.size > 0) sink->OnBody({data, decoded.size});
  return decoded.consumed;
}

Result<size_t> Parser::FeedHead(std::string_view bytes) {
  const auto state = scanner_.Scan(bytes);
  if (state == HeadScanner::State::kBad) {
    return Fail(Code::kInvalidArgument, "HTTP message: a line does not end in CRLF");
  }
  const bool complete = state == HeadScanner::State::kComplete;
  if ((complete ? scanner_.size() : bytes.size()) > head_limit_) {
    return Fail(Code::kResourceExhausted, "HTTP message: its head is longer than the " +
                                              std::to_string(head_limit_) + " bytes taken here");
  }
  if (!complete) return 0;
  ATOLL_TRY(TakeHead(bytes.substr(0, scanner_.size())));
  head_done_ = true;
  return scanner_.size();
}

Status Parser::TakeHead(std::string_view bytes) {
  Framing body;
  if (kind_ == Kind::kRequest) {
    auto read = ParseRequestHead(bytes);
    if (!read) return Fail(Refused(read.error()));
    head_.method = std::move(read->request.method);
    head_.target = std::move(read->request.target);
    head_.http_1_0 = read->http_1_0;
    head_.keep_alive = read->keep_alive;
    head_.headers = std::move(read->request.headers);
    body = read->body;
  } else {
    ATOLL_ASSIGN(ResponseHead read, ParseResponseHead(bytes, to_head_));
    head_.status = read.status;
    head_.keep_alive = read.keep_alive;
    head_.headers = std::move(read.headers);
    body = read.body;
  }
  if (const std::string* length = head_.Find("content-length")) {
    std::from_chars(length->data(), length->data() + length->size(),
                    head_.content_length.emplace());
  }
  head_.chunked = body.kind == Framing::Kind::kChunked;
  until_eof_ = body.kind == Framing::Kind::kUntilClose;
  decoder_ = BodyDecoder(body);
  return {};
}

Status Parser::FeedEof() {
  if (!head_done_ || !decoder_.AcceptsClose()) {
    return Fail(Code::kUnavailable, "HTTP message: connection closed");
  }
  ended_ = true;
  return {};
}

}  // namespace atl::http
