#include "execd/http/proxy.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"
#include "runtime/http/parser.h"
#include "runtime/http/serialize.h"

namespace atl::execd {
namespace {

// Codes of upstream's server, because this route replaces its proxy, too.
constexpr char kNoConnection[] = "BACKEND_CONNECTION_FAILED";
constexpr char kNoAnswer[] = "BACKEND_RESPONSE_FAILED";

constexpr size_t kHighWater = 256 << 10;
constexpr size_t kServerRead = 64 << 10;
constexpr int64_t kConnectUs = 5'000'000;
constexpr size_t kMaxHead = 64 << 10;
char g_from_server[kServerRead];

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address V4(uint32_t network_order, uint16_t port) {
  Address address;
  auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
  in->sin_family = AF_INET;
  in->sin_port = htons(port);
  in->sin_addr.s_addr = network_order;
  address.size = sizeof *in;
  return address;
}

Address V6(const in6_addr& bytes, uint16_t port) {
  Address address;
  auto* in = reinterpret_cast<sockaddr_in6*>(&address.storage);
  in->sin6_family = AF_INET6;
  in->sin6_port = htons(port);
  in->sin6_addr = bytes;
  address.size = sizeof *in;
  return address;
}

// Appends the addresses of the interfaces. Uses ioctl and /proc, because netlink would be another
// socket family that execd's filter must allow.
void AddOwnAddresses(uint16_t port, std::vector<Address>* out) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq requests[16];
  ifconf config{};
  config.ifc_len = sizeof requests;
  config.ifc_req = requests;
  if (socket && ::ioctl(socket.get(), SIOCGIFCONF, &config) == 0) {
    for (size_t i = 0; i < static_cast<size_t>(config.ifc_len) / sizeof(ifreq); ++i) {
      sockaddr_in in;
      std::memcpy(&in, &requests[i].ifr_addr, sizeof in);
      if (in.sin_family == AF_INET && in.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) {
        out->push_back(V4(in.sin_addr.s_addr, port));
      }
    }
  }
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/net/if_inet6", 64 << 10);
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (rest.size() > 32) {
    in6_addr bytes{};
    bool good = true;
    for (size_t i = 0; i < 16; ++i) {
      const auto end =
          std::from_chars(rest.data() + 2 * i, rest.data() + 2 * i + 2, bytes.s6_addr[i], 16);
      good &= end.ptr == rest.data() + 2 * i + 2;
    }
    // Link-local addresses would need a scope.
    if (good && !IN6_IS_ADDR_LOOPBACK(&bytes) && !IN6_IS_ADDR_LINKLOCAL(&bytes)) {
      out->push_back(V6(bytes, port));
    }
    const size_t end = rest.find('\n');
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
}

// Returns true if a field is forwarded unchanged. The length is written again, with the framing.
bool PassesOn(const http::Headers& headers, std::string_view name) {
  return !http::IsHopByHop(headers, name) && !http::EqualNoCase(name, "content-length");
}

bool IsUpgrade(const http::Head& head, std::string_view protocol) {
  const std::string* upgrade = head.Find("upgrade");
  return upgrade && http::EqualNoCase(*upgrade, protocol) &&
         http::Lists(head.headers, "connection", "upgrade");
}

// One forwarded request: connects, sends, and streams the answer back. Without a target it sends no
// request, and the answer is the connection's bytes.
class Forward : public std::enable_shared_from_this<Forward>, private http::Parser::BodySink {
 public:
  Forward(Core* core, std::shared_ptr<Exchange> exchange, uint16_t port, const std::string& target)
      : loop_(core->loop),
        exchange_(std::move(exchange)),
        port_(port),
        upgrade_(IsUpgrade(exchange_->head(), "websocket")),
        raw_(target.empty()) {
    addresses_.push_back(V4(htonl(INADDR_LOOPBACK), port));
    addresses_.push_back(V6(in6addr_loopback, port));
    if (!raw_) out_ = RequestHead(target);
    ResetParser();
  }
  Forward(Core* core, std::shared_ptr<Exchange> exchange, UniqueFd connected,
          const std::string& target)
      : loop_(core->loop),
        exchange_(std::move(exchange)),
        upgrade_(false),
        socket_(std::move(connected)) {
    out_ = RequestHead(target);
    ResetParser();
  }

  void Begin() {
    // The client has disconnected, so nothing is sent to the server.
    if (exchange_->closed()) return;
    const auto self = shared_from_this();
    exchange_->StreamBody([self](std::string_view bytes) { self->FromClient(bytes); },
                          [self] { self->ClientDone(); });
    exchange_->OnClosed([self] { self->Close(); });
    exchange_->OnWritable([self] { self->UpdateInterest(); });
    socket_ ? WatchSocket() : Connect();
  }

 private:
  std::string RequestHead(const std::string& target) const;
  void ResetParser() {
    parser_ = http::Parser(http::Parser::Kind::kResponse, kMaxHead);
    if (exchange_->head().method == "HEAD") parser_.SkipBody();
  }
  void Connect();
  void WatchSocket();
  void OnEvents(uint32_t events);
  void OnReadable();
  void FromServer(std::string_view bytes);
  void AnswerHead();
  void SwitchProtocol(const std::string& head);
  void OnBody(std::string_view piece) override { exchange_->Write(piece); }
  void FromClient(std::string_view bytes);
  void ClientDone();
  void Flush();
  void ServerDone();
  void UpdateInterest();
  void Refuse(const char* code, const std::string& message);
  void Close();

  EventLoop& loop_;
  std::shared_ptr<Exchange> exchange_;
  uint16_t port_ = 0;
  bool upgrade_, raw_ = false;
  std::vector<Address> addresses_;
  size_t next_address_ = 0;
  bool own_added_ = false;
  int last_error_ = 0;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0, timer_ = 0;
  bool connected_ = false, tunnel_ = false, client_done_ = false, shut_ = false;
  http::Parser parser_{http::Parser::Kind::kResponse, kMaxHead};
  int interim_heads_ = 0;
  std::string in_, out_;
};

std::string Forward::RequestHead(const std::string& target) const {
  const http::Head& head = exchange_->head();
  std::string out = head.method + " " + target + " HTTP/1.1\r\n";
  for (const auto& [name, value] : head.headers.list) {
    // The token is for execd only and must not reach a server in the sandbox.
    if (!PassesOn(head.headers, name) || http::EqualNoCase(name, "x-execd-access-token") ||
        http::EqualNoCase(name, "x-forwarded-for") ||
        http::EqualNoCase(name, "x-forwarded-proto") || http::EqualNoCase(name, "expect")) {
      continue;
    }
    http::AppendField(name, value, &out);
  }
  const std::string* forwarded = head.Find("x-forwarded-for");
  const std::string* real = head.Find("x-real-ip");
  std::string peer = forwarded ? forwarded->substr(0, forwarded->find(',')) : real ? *real : "";
  if (peer.empty()) peer = "127.0.0.1";
  // "http", which clients of this route expect, unless the client's connection was encrypted.
  const std::string* proto = head.Find("x-forwarded-proto");
  const bool tls = proto != nullptr && http::EqualNoCase(*proto, "https");
  out.append("X-Forwarded-For: ").append(peer);
  out.append(tls ? "\r\nX-Forwarded-Proto: https\r\n" : "\r\nX-Forwarded-Proto: http\r\n");
  if (upgrade_) {
    out.append("Connection: Upgrade\r\nUpgrade: websocket\r\n");
  } else {
    out.append("Connection: close\r\n");
    if (head.chunked) out.append("Transfer-Encoding: chunked\r\n");
    if (head.content_length) http::AppendNumberField("Content-Length", *head.content_length, &out);
  }
  return out.append("\r\n");
}

void Forward::Connect() {
  while (true) {
    if (next_address_ == addresses_.size() && !own_added_) {
      own_added_ = true;
      AddOwnAddresses(port_, &addresses_);
    }
    if (next_address_ == addresses_.size()) {
      Refuse(kNoConnection, "no server on port " + std::to_string(port_) + ": " +
                                SysError("connect", last_error_).message());
      return;
    }
    const Address& address = addresses_[next_address_++];
    socket_.reset(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket_ && (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                              address.size) == 0 ||
                    errno == EINPROGRESS)) {
      break;
    }
    last_error_ = errno;
  }
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  WatchSocket();
}

void Forward::WatchSocket() {
  const auto self = shared_from_this();
  const auto watch =
      loop_.Watch(socket_.get(), EPOLLOUT, [self](uint32_t events) { self->OnEvents(events); });
  if (!watch) {
    Refuse(kNoConnection, watch.error().message());
    return;
  }
  watch_ = *watch;
  timer_ = loop_.After(kConnectUs, [self] {
    self->last_error_ = ETIMEDOUT;
    self->loop_.Unwatch(self->watch_);
    self->Connect();
  });
}

void Forward::OnEvents(uint32_t events) {
  if (!connected_) {
    loop_.Cancel(timer_);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      last_error_ = error;
      loop_.Unwatch(watch_);
      Connect();
      return;
    }
    connected_ = true;
    if (raw_) SwitchProtocol("Upgrade: tcp\r\n");
  }
  if (events & EPOLLOUT) Flush();
  if (socket_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) OnReadable();
}

void Forward::FromClient(std::string_view bytes) {
  if (tunnel_ || !exchange_->head().chunked) {
    out_.append(bytes);
  } else {
    http::AppendChunkSize(bytes.size(), &out_);
    out_.append(bytes).append("\r\n");
  }
  if (out_.size() > kHighWater) exchange_->PauseBody();
  if (connected_) Flush();
}

void Forward::ClientDone() {
  client_done_ = true;
  if (!tunnel_ && exchange_->head().chunked) out_.append("0\r\n\r\n");
  if (connected_) Flush();
}

void Forward::Flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // A server may answer and close without reading the body; its answer is still valid.
      if (errno != EAGAIN) out_.clear();
      break;
    }
    out_.erase(0, static_cast<size_t>(n));
  }
  if (out_.size() < kHighWater / 2) exchange_->ResumeBody();
  if (tunnel_ && client_done_ && out_.empty() && !shut_) {
    shut_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  UpdateInterest();
}

void Forward::UpdateInterest() {
  if (!socket_ || watch_ == 0) return;
  uint32_t wanted = exchange_->backlog() <= kHighWater ? static_cast<uint32_t>(EPOLLIN) : 0U;
  if (!out_.empty()) wanted |= EPOLLOUT;
  loop_.Modify(watch_, wanted);
}

void Forward::OnReadable() {
  const ssize_t n = ::recv(socket_.get(), g_from_server, kServerRead, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    ServerDone();
    return;
  }
  const auto self = shared_from_this();
  FromServer({g_from_server, static_cast<size_t>(n)});
  UpdateInterest();
}

void Forward::FromServer(std::string_view bytes) {
  if (tunnel_) {
    exchange_->Write(bytes);
    return;
  }
  in_.append(bytes);
  while (!in_.empty() && !parser_.done()) {
    const bool had_head = parser_.head_done();
    const auto used = parser_.Feed(in_.data(), in_.size(), this);
    if (!used) {
      if (exchange_->started()) {
        exchange_->Abort();
        Close();
      } else {
        Refuse(kNoAnswer, "the server on port " + std::to_string(port_) +
                              " does not speak HTTP: " + used.error().message());
      }
      return;
    }
    in_.erase(0, *used);
    if (!had_head && parser_.head_done()) {
      const int status = parser_.head().status;
      // Interim answers (100, 103) precede the final one.
      if (status >= 100 && status < 200 && status != 101) {
        if (++interim_heads_ > http::kMaxInterimHeads) {
          Refuse(kNoAnswer, "the server on port " + std::to_string(port_) +
                                " sent too many interim responses");
          return;
        }
        ResetParser();
        continue;
      }
      AnswerHead();
      if (tunnel_) {
        exchange_->Write(in_);
        in_.clear();
        return;
      }
      continue;
    }
    if (*used == 0) break;
  }
  if (parser_.done()) {
    exchange_->Finish();
    Close();
  }
}

void Forward::AnswerHead() {
  const http::Head& head = parser_.head();
  const bool bodyless = exchange_->head().method == "HEAD";
  if (head.status == 101 && upgrade_) {
    std::string fields;
    for (const auto& [name, value] : head.headers.list) {
      if (!http::EqualNoCase(name, "connection")) http::AppendField(name, value, &fields);
    }
    SwitchProtocol(fields);
    return;
  }
  HeaderList headers;
  for (const auto& [name, value] : head.headers.list) {
    if (PassesOn(head.headers, name)) headers.emplace_back(name, value);
  }
  if (bodyless) {
    exchange_->RespondHead(head.status, headers, head.content_length);
    Close();
    return;
  }
  const uint64_t* length = head.content_length ? &*head.content_length : nullptr;
  const uint64_t none = 0;
  if (head.status == 204 || head.status == 304) {
    exchange_->RespondHead(head.status, headers, std::nullopt);
    Close();
    return;
  }
  if (!length && !head.chunked && !parser_.until_eof()) length = &none;
  exchange_->StartStream(head.status, headers, length);
}

void Forward::SwitchProtocol(const std::string& fields) {
  tunnel_ = true;
  exchange_->SwitchProtocol("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + fields +
                            "\r\n");
  const auto self = shared_from_this();
  // The request's body has ended. From here on, the end is that of the byte pipe.
  client_done_ = false;
  exchange_->StreamBody([self](std::string_view bytes) { self->FromClient(bytes); },
                        [self] { self->ClientDone(); });
}

void Forward::ServerDone() {
  const auto self = shared_from_this();
  if (tunnel_) {
    exchange_->Finish();
  } else if (!exchange_->started()) {
    Refuse(kNoAnswer, "the server on port " + std::to_string(port_) + " closed without an answer");
    return;
  } else if (parser_.FeedEof()) {
    exchange_->Finish();
  } else {
    // The answer is incomplete, and the client must notice.
    exchange_->Abort();
  }
  Close();
}

void Forward::Refuse(const char* code, const std::string& message) {
  exchange_->RespondError(502, code, message);
  Close();
}

void Forward::Close() {
  loop_.Cancel(timer_);
  loop_.Unwatch(watch_);
  watch_ = 0;
  socket_.reset();
}

// Returns 0 if the text is no port.
uint16_t PortOf(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() ? port : uint16_t{0};
}

}  // namespace

void ForwardPort(Core* core, const std::shared_ptr<Exchange>& exchange) {
  const std::string text(exchange->raw_path().substr(std::string_view("/forward/").size()));
  const uint16_t port = PortOf(text);
  if (port == 0) {
    return exchange->RespondError(400, "INVALID_REQUEST_BODY", "'" + text + "' is not a port");
  }
  if (!IsUpgrade(exchange->head(), "tcp")) {
    return exchange->RespondError(426, "INVALID_REQUEST_BODY",
                                  "ask with 'Connection: Upgrade' and 'Upgrade: tcp'");
  }
  std::make_shared<Forward>(core, exchange, port, std::string())->Begin();
}

void ForwardTo(Core* core, const std::shared_ptr<Exchange>& exchange, UniqueFd connected,
               std::string target) {
  std::make_shared<Forward>(core, exchange, std::move(connected), target)->Begin();
}

void Proxy(Core* core, const std::shared_ptr<Exchange>& exchange) {
  // "/proxy/8000/rest": uses the raw path, so that escapes reach the server unchanged.
  std::string_view raw = exchange->raw_path();
  raw.remove_prefix(std::string_view("/proxy/").size());
  const size_t slash = std::min(raw.find('/'), raw.size());
  const uint16_t port = PortOf(raw.substr(0, slash));
  if (port == 0) {
    exchange->RespondText(400, "proxy: '" + std::string(raw.substr(0, slash)) +
                                   "' is not a port, use /proxy/{port}/…");
    return;
  }
  std::string target(raw.substr(slash));
  if (target.empty()) target = "/";
  if (!exchange->raw_query().empty()) target.append("?").append(exchange->raw_query());
  std::make_shared<Forward>(core, exchange, port, target)->Begin();
}

}  // namespace atl::execd
