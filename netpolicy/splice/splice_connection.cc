#include "netpolicy/splice/splice_connection.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "netpolicy/splice/client_hello.h"
#include "runtime/base/clock.h"

namespace atl::netpolicy {
namespace {

constexpr size_t kMaxDialled = 16;
// Most bytes that a refused client may still send before the connection is cut.
constexpr size_t kMaxDrained = 256 * 1024;
constexpr uint32_t kReadable = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
constexpr uint32_t kGone = EPOLLHUP | EPOLLERR;

// RFC 8446 section 6.2.
constexpr uint8_t kAlertAccessDenied = 49;
constexpr uint8_t kAlertDecodeError = 50;
constexpr uint8_t kAlertInternalError = 80;
constexpr uint8_t kAlertUnrecognizedName = 112;
// No alert, for clients whose protocol is unknown.
constexpr uint8_t kNoAnswer = 0;

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

SpliceConnection::SpliceConnection(SpliceConnections& shared, uint64_t id, std::string source,
                                   Endpoint original, UniqueFd client)
    : shared_(shared),
      id_(id),
      source_(std::move(source)),
      original_(original),
      interceptor_(shared.InterceptorOf(source_)),
      client_(std::move(client)),
      up_(shared.pipes()),
      down_(shared.pipes()) {}

SpliceConnection::~SpliceConnection() {
  shared_.loop().Cancel(timer_);
  if (resolve_ != 0) shared_.gate().CancelResolve(resolve_);
}

bool SpliceConnection::Start() {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = ClientTag(id_);
  if (::epoll_ctl(shared_.epoll(), EPOLL_CTL_ADD, client_.get(), &event) != 0) return false;
  SetTimer(shared_.timeouts().head_us, &SpliceConnection::OnHeadTimeout);
  return true;
}

void SpliceConnection::SetTimer(int64_t delay_us, void (SpliceConnection::*fire)()) {
  shared_.loop().Cancel(timer_);
  timer_ = shared_.loop().After(delay_us, [this, fire] {
    timer_ = 0;
    (this->*fire)();
  });
}

void SpliceConnection::OnHeadTimeout() {
  Refuse("neither a TLS client hello nor an HTTP request in time", kNoAnswer);
}

void SpliceConnection::OnIdleCheck() {
  // Moving the timer with every byte would be expensive. Instead, it compares the time of the last
  // one.
  const int64_t left = active_us_ + shared_.timeouts().idle_us - SystemClock().BootMicros();
  if (left <= 0) return Abort();
  SetTimer(left, &SpliceConnection::OnIdleCheck);
}

void SpliceConnection::OnClientEvents(uint32_t events) {
  switch (phase_) {
    case Phase::kHead:
      return ReadHead();
    case Phase::kResolving:
    case Phase::kDialling:
      // A client that has only shut down its sending side still waits for an answer.
      if (events & kGone) Abort();
      return;
    case Phase::kOpen:
      // Undelivered bytes go first: the other socket tells when it can take more.
      if ((events & kReadable) && !up_.sink_full()) up_ready_ = true;
      if ((events & EPOLLOUT) && down_.sink_full()) down_ready_ = true;
      if (events & kGone) client_gone_ = down_ready_ = true;
      return ScheduleIfReady();
    case Phase::kRefused:
      return DrainRefused();
    case Phase::kIntercepted:
    case Phase::kClosed:
      return;
  }
}

void SpliceConnection::OnServerEvents(uint32_t events) {
  if (phase_ == Phase::kDialling) return dial_->OnEvent();
  if (phase_ == Phase::kIntercepted) return Close();
  if (phase_ != Phase::kOpen) return;
  if ((events & kReadable) && !down_.sink_full()) down_ready_ = true;
  if ((events & EPOLLOUT) && up_.sink_full()) up_ready_ = true;
  if (events & kGone) server_gone_ = up_ready_ = true;
  ScheduleIfReady();
}

void SpliceConnection::ReadHead() {
  std::array<char, kMaxBuffer> buffer;
  while (phase_ == Phase::kHead) {
    const bool peek = interceptor_ != nullptr;
    const ssize_t n = TEMP_FAILURE_RETRY(::recv(
        client_.get(), buffer.data(), kMaxBuffer - (peek ? 0 : in_.size()), peek ? MSG_PEEK : 0));
    if (n < 0 && errno == EAGAIN) return;
    // The client closed before it asked for anything, so this is no refusal.
    if (n <= 0) return Close();
    if (peek && static_cast<size_t>(n) == in_.size()) return;
    if (peek) in_.clear();
    in_.append(buffer.data(), static_cast<size_t>(n));
    Inspect();
  }
}

void SpliceConnection::Inspect() {
  if (static_cast<uint8_t>(in_[0]) == kTlsHandshakeRecord) return InspectHello();
  if (IsLetter(in_[0])) return InspectRequest();
  Refuse("neither TLS nor HTTP", kNoAnswer);
}

void SpliceConnection::InspectHello() {
  const auto read = ReadClientHello({reinterpret_cast<const uint8_t*>(in_.data()), in_.size()});
  if (read.state == ClientHelloRead::State::kMore) return;
  if (read.state == ClientHelloRead::State::kRefused) {
    return Refuse(read.reason, kAlertDecodeError);
  }
  name_ = read.hello.name;
  hidden_ = read.hello.encrypted;
  first_head_ = read.size;
  records_.Begin(read.hello);
  if (name_.empty() && !shared_.gate().AllowsUnnamed(source_)) {
    return Refuse("no server name in TLS", kAlertUnrecognizedName);
  }
  if (hidden_ && !shared_.gate().AllowsUnnamed(source_)) {
    return Refuse("encrypted TLS client hello (ECH)", kAlertAccessDenied);
  }
  Resolve();
}

void SpliceConnection::InspectRequest() {
  http_ = true;
  const auto piece = requests_.Take(in_);
  if (piece.kind == HttpRequests::Kind::kMore) return;
  if (piece.kind == HttpRequests::Kind::kRefused) return Refuse(piece.reason, kNoAnswer);
  first_head_ = piece.size;
  const HttpHead& head = requests_.head();
  name_ = head.name;
  if (head.port != 0 && head.port != original_.port()) {
    return Refuse("HTTP Host names another port", kNoAnswer);
  }
  if (name_.empty()) {
    if (!shared_.gate().AllowsUnnamed(source_)) return Refuse("no host name in HTTP", kNoAnswer);
    if (!head.address.empty() && head.address != original_.AddressBytes()) {
      return Refuse("HTTP Host is not the address of the connection", kNoAnswer);
    }
  }
  Resolve();
}

bool SpliceConnection::MayPass() {
  ProxyGate& gate = shared_.gate();
  if ((name_.empty() || hidden_) && !gate.AllowsUnnamed(source_)) return false;
  return name_.empty() ? gate.AllowsAddress(source_, original_)
                       : gate.Allows(source_, name_, original_.port());
}

void SpliceConnection::Resolve() {
  if (!MayPass()) return Refuse("not allowed by policy", kAlertAccessDenied);
  phase_ = Phase::kResolving;
  SetTimer(shared_.timeouts().dial.total_us, &SpliceConnection::OnResolveTimeout);
  if (name_.empty()) return OnResolved({original_.ip()});
  const ProxyGate::Id id = shared_.gate().Resolve(source_, name_, original_.port(),
                                                  [this](std::vector<IpAddress> addresses) {
                                                    resolve_ = 0;
                                                    OnResolved(addresses);
                                                  });
  if (phase_ == Phase::kResolving) resolve_ = id;
}

void SpliceConnection::OnResolveTimeout() {
  Fail("its name was not resolved in time");
}

void SpliceConnection::OnResolved(const std::vector<IpAddress>& addresses) {
  const bool ipv6 = original_.family() == AF_INET6;
  std::vector<Endpoint> targets;
  for (const bool family : {ipv6, !ipv6}) {
    for (const IpAddress& address : addresses) {
      if (address.ipv6 != family || targets.size() == kMaxDialled) continue;
      const Endpoint target = MakeEndpoint(address, original_.port());
      if (!NeverDialled(address) && !shared_.IsOwn(target)) targets.push_back(target);
    }
  }
  if (addresses.empty()) return Fail("its name has no address that may be reached");
  if (targets.empty()) {
    return Refuse("its name leads to addresses that are never reached", kAlertAccessDenied);
  }
  Dial(std::move(targets));
}

void SpliceConnection::Dial(std::vector<Endpoint> targets) {
  phase_ = Phase::kDialling;
  shared_.loop().Cancel(std::exchange(timer_, 0));
  dial_ = std::make_unique<SpliceDial>(
      shared_.loop(), SpliceDial::Watch{shared_.epoll(), ServerTag(id_)}, std::move(targets),
      shared_.timeouts().dial, shared_.connect(),
      [this](UniqueFd server) { OnDialled(std::move(server)); });
  dial_->Start();
}

void SpliceConnection::OnDialled(UniqueFd server) {
  // The dial may be on the stack, so it is destroyed later, with the connection.
  if (!server) return Fail("its server does not answer");
  server_ = std::move(server);
  if (!ServerReachable()) {
    server_.reset();
    return Refuse("not allowed by policy", kAlertAccessDenied);
  }
  opened_ = true;
  ++shared_.stats().opened;
  shared_.OnOpen(id_);
  if (interceptor_ && !name_.empty() && interceptor_->Wants(name_, !http_, original_.port()))
    return HandOver();
  if (interceptor_ && !TakePeeked()) return Abort();
  BeginSplicing();
}

// Reads the bytes that were only peeked at so far.
bool SpliceConnection::TakePeeked() {
  std::array<char, kMaxBuffer> buffer;
  const ssize_t n =
      TEMP_FAILURE_RETRY(::recv(client_.get(), buffer.data(), in_.size(), MSG_DONTWAIT));
  return n == static_cast<ssize_t>(in_.size());
}

void SpliceConnection::HandOver() {
  in_ = std::string();
  shared_.loop().Cancel(std::exchange(timer_, 0));
  // The interceptor gets the events of these sockets from here on.
  for (const UniqueFd* fd : {&client_, &server_}) {
    (void)::epoll_ctl(shared_.epoll(), EPOLL_CTL_DEL, fd->get(), nullptr);
  }
  InterceptedConnection connection{name_, !http_,
                                   UniqueFd(::fcntl(client_.get(), F_DUPFD_CLOEXEC, 0)),
                                   UniqueFd(::fcntl(server_.get(), F_DUPFD_CLOEXEC, 0))};
  if (!connection.client || !connection.server) return Abort();
  auto lease = interceptor_->Take(std::move(connection));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = ServerTag(id_);
  if (!lease || ::epoll_ctl(shared_.epoll(), EPOLL_CTL_ADD, lease->get(), &event) != 0) {
    // Without the interceptor the request would lack its credentials, which is not what the client
    // meant.
    ++shared_.stats().failed;
    return Abort();
  }
  lease_ = std::move(*lease);
  phase_ = Phase::kIntercepted;
}

void SpliceConnection::BeginSplicing() {
  phase_ = Phase::kOpen;
  active_us_ = SystemClock().BootMicros();
  SetTimer(shared_.timeouts().idle_us, &SpliceConnection::OnIdleCheck);

  if (http_) {
    AppendHead(std::string_view(in_).substr(0, first_head_));
    in_.erase(0, first_head_);
    mode_ = requests_.head().upgrade ? Mode::kAwaitAnswer : Mode::kRequests;
  } else {
    up_.Append(std::string_view(in_).substr(0, first_head_));
    in_.erase(0, first_head_);
    mode_ = Mode::kRecords;
  }
  if (mode_ != Mode::kAwaitAnswer) down_.SetQuota(SplicePump::kNoLimit);
  up_ready_ = down_ready_ = true;
  ScheduleIfReady();
}

bool SpliceConnection::ServerReachable() {
  Endpoint server;
  // A socket without a peer is broken; the pumps will notice.
  if (::getpeername(server_.get(), server.get(), &server.size) != 0) return true;
  return shared_.gate().Reaches(source_, server);
}

void SpliceConnection::Rejudge() {
  const bool connected = phase_ == Phase::kOpen || phase_ == Phase::kIntercepted;
  const bool judged = phase_ == Phase::kResolving || phase_ == Phase::kDialling || connected;
  // While the connection has no server, OnDialled checks whether the server is reachable.
  if (!judged || (MayPass() && (!connected || ServerReachable()))) return;
  ++shared_.stats().cut;
  Abort();
}

void SpliceConnection::Refuse(const char* reason, uint8_t tls_alert) {
  ++shared_.stats().refused;
  shared_.gate().Denied(source_, original_, name_, reason);
  Answer("403 Forbidden", reason, tls_alert);
}

void SpliceConnection::Fail(const char* reason) {
  ++shared_.stats().failed;
  Answer("502 Bad Gateway", reason, kAlertInternalError);
}

void SpliceConnection::Answer(const char* status, const char* reason, uint8_t tls_alert) {
  if (resolve_ != 0) shared_.gate().CancelResolve(std::exchange(resolve_, 0));
  std::string answer;
  if (http_) {
    const std::string body = "The network policy of this sandbox: " +
                             (name_.empty() ? "connection to " + original_.ToString() : name_) +
                             ": " + reason + ".\n";
    answer = std::string("HTTP/1.1 ") + status +
             "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  } else if (tls_alert != kNoAnswer) {
    const char alert[] = {21, 3, 3, 0, 2, 2, static_cast<char>(tls_alert)};
    answer.assign(alert, sizeof alert);
  }
  // These are the first bytes on this socket. Its buffer has room for them, unless the client is
  // gone.
  if (::send(client_.get(), answer.data(), answer.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(answer.size()) ||
      ::shutdown(client_.get(), SHUT_WR) != 0) {
    return Abort();
  }
  // A close with unread bytes would send a reset, and the client would lose the answer.
  phase_ = Phase::kRefused;
  in_ = std::string();
  SetTimer(shared_.timeouts().linger_us, &SpliceConnection::Abort);
  DrainRefused();
}

void SpliceConnection::DrainRefused() {
  std::array<char, 4096> scrap;
  while (true) {
    const ssize_t n = TEMP_FAILURE_RETRY(::recv(client_.get(), scrap.data(), scrap.size(), 0));
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Close();
    drained_ += static_cast<size_t>(n);
    if (drained_ > kMaxDrained) return Abort();
  }
}

void SpliceConnection::Abort() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  for (const UniqueFd* fd : {&client_, &server_}) {
    if (fd->valid()) (void)::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  Close();
}

void SpliceConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kIntercepted) {
    // The interceptor holds duplicates of these sockets, so closing ours is not enough.
    for (const UniqueFd* fd : {&client_, &server_}) (void)::shutdown(fd->get(), SHUT_RDWR);
    lease_.reset();
  }
  phase_ = Phase::kClosed;
  shared_.loop().Cancel(std::exchange(timer_, 0));
  if (resolve_ != 0) shared_.gate().CancelResolve(std::exchange(resolve_, 0));
  client_.reset();
  server_.reset();
  if (dial_) dial_->Stop();
  shared_.OnClosed(id_);
}

}  // namespace atl::netpolicy
