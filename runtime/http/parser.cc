#include "runtime/http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "runtime/http/ascii.h"

namespace atl::http {
namespace {

namespace beast = boost::beast;

std::string_view View(beast::string_view text) {
  return {text.data(), text.size()};
}

// Beast calls back into this with what it has recognised; it lives in Parser::Impl so that its
// request and response forms share the code.
template <bool kIsRequest>
class Recogniser final : public beast::http::basic_parser<kIsRequest> {
 public:
  Recogniser(Head* head, size_t header_limit) : head_(*head) {
    this->header_limit(static_cast<std::uint32_t>(
        std::min<size_t>(header_limit, std::numeric_limits<std::uint32_t>::max())));
    this->body_limit(boost::none);
    this->eager(true);
  }
  void set_sink(Parser::BodySink* sink) { sink_ = sink; }

 private:
  using ErrorCode = beast::error_code;

  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                       int version, ErrorCode& ec) override {
    ec = {};
    head_.method = View(method);
    head_.target = View(target);
    head_.version = version;
  }
  void on_response_impl(int code, beast::string_view reason, int version, ErrorCode& ec) override {
    ec = {};
    head_.status = code;
    head_.reason = View(reason);
    head_.version = version;
  }
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     ErrorCode& ec) override {
    ec = {};
    // Trailers come through here too, after the head has been handed out: they are dropped.
    if (!head_done_) head_.headers.emplace_back(View(name), View(value));
  }
  void on_header_impl(ErrorCode& ec) override {
    ec = {};
    head_done_ = true;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode& ec) override { ec = {}; }
  std::size_t on_body_impl(beast::string_view body, ErrorCode& ec) override {
    ec = {};
    if (sink_) sink_->OnBody(View(body));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode& ec) override { ec = {}; }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, ErrorCode& ec) override {
    ec = {};
    if (sink_) sink_->OnBody(View(body));
    return body.size();
  }
  void on_finish_impl(ErrorCode& ec) override { ec = {}; }

  Head& head_;
  Parser::BodySink* sink_ = nullptr;
  bool head_done_ = false;
};

// "0\r\n\r\n". Beast asserts that the end of a chunked body is as long as that when it looks at its
// head again, and a piece that ends within it would end the process.
constexpr size_t kShortestEnd = 5;

Error ParseError(const beast::error_code& ec) {
  const bool size = ec == beast::http::error::header_limit;
  return Error(size ? Code::kResourceExhausted : Code::kInvalidArgument,
               "HTTP message: " + ec.message());
}

}  // namespace

const std::string* Head::Find(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualNoCase(key, name)) return &value;
  }
  return nullptr;
}

struct Parser::Impl {
  Impl(Kind kind, size_t header_limit) : limit(header_limit) {
    if (kind == Kind::kRequest) {
      request.emplace(&head, header_limit);
    } else {
      response.emplace(&head, header_limit);
    }
  }

  template <typename F>
  auto With(F f) {
    return request ? f(*request) : f(*response);
  }
  template <typename F>
  auto With(F f) const {
    return request ? f(*request) : f(*response);
  }

  void TakeHead() {
    With([&](auto& parser) {
      head.chunked = parser.chunked();
      const auto length = parser.content_length();
      if (length) head.content_length = *length;
      head.keep_alive = parser.keep_alive();
      head.upgrade = parser.upgrade();
    });
    head_taken = true;
  }

  Head head;
  std::optional<Recogniser<true>> request;
  std::optional<Recogniser<false>> response;
  const size_t limit;
  size_t head_used = 0;
  bool starved = false;  // in the body: what there was did not make a chunk's head
  bool head_taken = false;
};

Parser::Parser(Kind kind, size_t header_limit) : impl_(new Impl(kind, header_limit)) {}
Parser::Parser(Parser&&) noexcept = default;
Parser& Parser::operator=(Parser&&) noexcept = default;
Parser::~Parser() = default;

void Parser::SkipBody() {
  impl_->With([](auto& parser) { parser.skip(true); });
}

Result<size_t> Parser::Feed(std::string_view bytes, BodySink* sink) {
  return impl_->With([&](auto& parser) -> Result<size_t> {
    parser.set_sink(sink);
    size_t used = 0;
    while (!parser.is_done()) {
      const bool in_head = !impl_->head_taken;
      // Until the head is handed out, not eager: put() then returns right behind it.
      parser.eager(!in_head);
      // Beast checks its limit only while it waits for more: a head that comes in one piece passes
      // at any size.
      std::string_view rest = bytes.substr(used);
      if (in_head) rest = rest.substr(0, impl_->limit - impl_->head_used);
      if (impl_->starved && rest.size() < kShortestEnd) break;
      beast::error_code ec;
      const size_t n = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
      used += n;
      impl_->starved = !in_head && n == 0 && ec == beast::http::error::need_more;
      if (in_head) impl_->head_used += n;
      if (parser.is_header_done() && in_head) {
        impl_->TakeHead();
        if (ec && ec != beast::http::error::need_more) return Fail(ParseError(ec));
        break;
      }
      if (ec && ec != beast::http::error::need_more) return Fail(ParseError(ec));
      // What cannot be taken in even with a limit's worth in hand never will be.
      if (ec && rest.size() - n >= impl_->limit - (in_head ? impl_->head_used : 0)) {
        return Fail(ParseError(beast::http::error::header_limit));
      }
      if (ec || n == 0) break;
    }
    return used;
  });
}

Status Parser::FeedEof(BodySink* sink) {
  return impl_->With([&](auto& parser) -> Status {
    if (parser.is_done()) return {};
    parser.set_sink(sink);
    beast::error_code ec;
    if (parser.got_some()) parser.put_eof(ec);
    if (ec) return Fail(ParseError(ec));
    if (!parser.is_done()) return Fail(Code::kUnavailable, "HTTP message: connection closed");
    return {};
  });
}

bool Parser::head_done() const {
  return impl_->head_taken;
}
bool Parser::done() const {
  return impl_->With([](const auto& parser) { return parser.is_done(); });
}
bool Parser::until_eof() const {
  return impl_->With([](const auto& parser) { return parser.need_eof(); });
}
const Head& Parser::head() const {
  return impl_->head;
}

}  // namespace atl::http
