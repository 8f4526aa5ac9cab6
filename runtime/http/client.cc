#include "runtime/http/client.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/http/ascii.h"
#include "runtime/http/body.h"
#include "runtime/http/client_socket.h"
#include "runtime/http/head.h"
#include "runtime/http/serialize.h"

namespace atl::http {
namespace {

constexpr size_t kMaxHead = 256 << 10;
constexpr size_t kMaxBody = 64 << 20;

using OnData = std::function<bool(std::string_view)>;

bool IsIdempotent(std::string_view method) {
  static constexpr std::array<std::string_view, 5> kMethods = {"GET", "HEAD", "PUT", "DELETE",
                                                               "OPTIONS"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

class SocketClient final : public Client {
 public:
  SocketClient(BaseUrl url, std::shared_ptr<const TlsContext> trust)
      : url_(std::move(url)), trust_(std::move(trust)) {}

  Result<Response> Send(const Call& call) override { return Perform(call, nullptr); }
  Result<Response> Stream(const Call& call, const OnData& on_data) override {
    return Perform(call, &on_data);
  }

 private:
  Result<Response> Perform(const Call& call, const OnData* on_data) {
    if (call.limit_us == 0) return PerformUntil(call.cancel_fd, call, on_data);
    ATOLL_ASSIGN(const UniqueFd timer, TimeLimit(call.limit_us));
    auto response = PerformUntil(timer.get(), call, on_data);
    if (response || response.error().error_number() != ECANCELED) return response;
    return Fail(Error(Code::kUnavailable,
                      "no answer within " + std::to_string(call.limit_us / 1'000'000) + " s",
                      ETIMEDOUT));
  }

  Result<Response> PerformUntil(int cancel_fd, const Call& call, const OnData* on_data) {
    ATOLL_ASSIGN(const std::string head, RequestHeadOf(call));
    if (socket_ && !socket_->IsQuiet()) socket_.reset();
    const bool kept = socket_.has_value();
    auto response = Attempt(cancel_fd, call, head, on_data);
    if (response) return response;
    socket_.reset();
    // A kept connection may have been closed at the moment of its use.
    const bool repeat = kept && !heard_ && IsIdempotent(call.method) &&
                        response.error().error_number() != ECANCELED;
    if (!repeat) return response;
    response = Attempt(cancel_fd, call, head, on_data);
    if (!response) socket_.reset();
    return response;
  }

  Result<Response> Attempt(int cancel_fd, const Call& call, const std::string& head,
                           const OnData* on_data) {
    heard_ = false;
    if (!socket_) {
      ATOLL_ASSIGN(socket_, ClientSocket::Connect(url_, trust_.get(), cancel_fd));
    }
    socket_->set_cancel_fd(cancel_fd);
    input_ = Buffer();
    bool answered = false;
    const Status sent = SendRequest(call, head, &answered);
    // A server that refuses a body answers and closes while the body is being sent.
    if (!sent && sent.error().code() != Code::kUnavailable) return Fail(sent.error());
    if (!sent && sent.error().error_number() == ECANCELED) return Fail(sent.error());
    ATOLL_ASSIGN(const ResponseHead response, ReadHead(call.method == "HEAD"));
    ATOLL_ASSIGN(Response out, ReadBody(call, response, on_data));
    const bool reusable = response.keep_alive && sent && !answered && input_.empty() && !stopped_;
    if (!reusable) socket_.reset();
    return out;
  }

  Result<std::string> RequestHeadOf(const Call& call) const {
    const std::string target = url_.prefix + call.target;
    if (!ValidTarget(target) || target.front() != '/') {
      return Fail(Code::kInvalidArgument, "request target \"" + call.target + "\" is not valid");
    }
    std::string head = call.method + " " + target + " HTTP/1.1\r\n";
    if (!call.headers.Has("host")) AppendField("Host", url_.authority, &head);
    for (const Header& header : call.headers.list) {
      if (!ValidField(header.name, header.value)) {
        return Fail(Code::kInvalidArgument, "header " + header.name + " cannot be sent");
      }
      AppendField(header.name, header.value, &head);
    }
    const uint64_t size = call.body_fd >= 0 ? call.body_size : call.body.size();
    if (size > 0 || call.method == "POST" || call.method == "PUT" || call.method == "PATCH") {
      AppendNumberField("Content-Length", size, &head);
    }
    head.append("\r\n");
    return head;
  }

  Status SendRequest(const Call& call, const std::string& head, bool* answered) {
    if (call.body_fd < 0) return socket_->Send(head + call.body, answered);
    ATOLL_TRY(socket_->Send(head, answered));
    if (*answered) return {};
    const auto progress = [&call](uint64_t sent) {
      if (call.on_progress) call.on_progress(sent);
    };
    return socket_->SendFile(call.body_fd, call.body_size, progress, answered);
  }

  Result<ResponseHead> ReadHead(bool to_head) {
    HeadScanner scanner;
    int interim_heads = 0;
    while (true) {
      const auto found = scanner.Scan(input_.view());
      if (found == HeadScanner::State::kBad) {
        return Fail(Code::kUnavailable, url_.authority + " does not speak HTTP/1.1");
      }
      if (found == HeadScanner::State::kComplete) {
        auto head = ParseResponseHead(input_.view().substr(0, scanner.size()), to_head);
        if (!head) return Fail(std::move(head).error().Wrap("answer of " + url_.authority));
        input_.Consume(scanner.size());
        scanner.Reset();
        if (head->status >= 200) return head;
        if (++interim_heads > kMaxInterimHeads) {
          return Fail(Code::kUnavailable, url_.authority + " sent too many interim responses");
        }
        continue;
      }
      if (input_.size() > kMaxHead) {
        return Fail(Code::kUnavailable, "the head of the answer is over 256 KiB");
      }
      ATOLL_ASSIGN(const bool more, socket_->Read(&input_));
      if (!more) {
        return Fail(Code::kUnavailable,
                    url_.authority + " closed the connection without an answer");
      }
      heard_ = true;
    }
  }

  Result<Response> ReadBody(const Call& call, const ResponseHead& head, const OnData* on_data) {
    Response out;
    out.status = head.status;
    out.headers = head.headers;
    if (call.on_head) call.on_head(head.status);
    const bool stream = on_data != nullptr && head.status / 100 == 2;
    BodyDecoder body(head.body);
    stopped_ = false;
    while (true) {
      ATOLL_ASSIGN(const auto decoded, body.Decode(input_.data(), input_.size()));
      const std::string_view bytes(input_.data(), decoded.size);
      if (stream && !bytes.empty()) stopped_ = !(*on_data)(bytes);
      if (!stream) out.body.append(bytes);
      input_.Consume(decoded.consumed);
      if (body.done() || stopped_) return out;
      if (out.body.size() > kMaxBody) {
        return Fail(Code::kResourceExhausted, "the answer is over 64 MiB");
      }
      ATOLL_ASSIGN(const bool more, socket_->Read(&input_));
      if (more) continue;
      if (body.AcceptsClose()) return out;
      return Fail(Code::kUnavailable, url_.authority + " broke off within the answer");
    }
  }

  const BaseUrl url_;
  const std::shared_ptr<const TlsContext> trust_;  // set for https
  std::optional<ClientSocket> socket_;
  Buffer input_;
  bool heard_ = false;    // a part of the current answer has arrived
  bool stopped_ = false;  // on_data has returned false
};

}  // namespace

Result<std::unique_ptr<Client>> Client::Create(const std::string& base_url,
                                               std::shared_ptr<const TlsContext> trust) {
  ATOLL_ASSIGN(BaseUrl url, ParseBaseUrl(base_url));
  if (url.tls && !trust) {
    ATOLL_ASSIGN(trust, TlsContext::ForClient(""));
  }
  return std::unique_ptr<Client>(std::make_unique<SocketClient>(std::move(url), std::move(trust)));
}

Result<UniqueFd> TimeLimit(int64_t micros) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec limit{};
  limit.it_value.tv_sec = micros / 1'000'000;
  limit.it_value.tv_nsec = micros % 1'000'000 * 1000;
  if (!timer || ::timerfd_settime(timer.get(), 0, &limit, nullptr) != 0) return FailSys("timerfd");
  return timer;
}

}  // namespace atl::http
