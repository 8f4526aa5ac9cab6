#include "tests/unit/http/socket_peer.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <cstring>
#include <future>

#include "runtime/http/ascii.h"
#include "tests/unit/http/test_certificate.h"

namespace atl::http {
namespace {

constexpr int kPatienceMs = 10'000;

}  // namespace

Peer::Peer(UniqueFd fd) : fd_(std::move(fd)) {
  EXPECT_TRUE(fd_.valid());
}

namespace {

struct TlsEnds {
  std::shared_ptr<const TlsContext> server, client;
};

const TlsEnds& Ends() {
  static const TlsEnds ends = [] {
    const TestCertificate pair;
    TestFiles files;
    const std::string certificate = files.Write("cert", pair.certificate);
    auto server = TlsContext::ForServer(certificate, files.Write("key", pair.key));
    auto client = TlsContext::ForClient(certificate);
    EXPECT_TRUE(server) << server.error().message();
    EXPECT_TRUE(client) << client.error().message();
    return TlsEnds{std::move(*server), std::move(*client)};
  }();
  return ends;
}

}  // namespace

std::shared_ptr<const TlsContext> ServerTls() {
  return Ends().server;
}

std::shared_ptr<const TlsContext> ClientTrust() {
  return Ends().client;
}

Peer Peer::ConnectTcp(uint16_t port, bool tls) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
      << strerror(errno);
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Peer peer(std::move(fd));
  if (!tls) return peer;
  static SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  peer.ssl_.reset(SSL_new(context), SSL_free);
  SSL_set_fd(peer.ssl_.get(), peer.fd());
  EXPECT_EQ(SSL_connect(peer.ssl_.get()), 1);
  // A read may block although poll(2) has reported data, because the data may be a session ticket
  // only.
  const timeval patience{kPatienceMs / 1000, 0};
  setsockopt(peer.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return peer;
}

void Peer::Send(std::string_view bytes) {
  EXPECT_TRUE(TrySend(bytes)) << strerror(errno);
}

bool Peer::TrySend(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                           : send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Peer::Fill() {
  pollfd wait{fd_.get(), POLLIN, 0};
  if ((!ssl_ || SSL_pending(ssl_.get()) == 0) && poll(&wait, 1, kPatienceMs) != 1) {
    ADD_FAILURE() << "nothing came; so far: " << pending_;
    return false;
  }
  char bytes[16384];
  const ssize_t n =
      ssl_ ? SSL_read(ssl_.get(), bytes, sizeof bytes) : recv(fd_.get(), bytes, sizeof bytes, 0);
  if (n < 0 && !ssl_ && errno == ECONNRESET) reset_ = true;
  if (n <= 0 && ssl_ && SSL_get_error(ssl_.get(), static_cast<int>(n)) != SSL_ERROR_ZERO_RETURN) {
    reset_ = true;
  }
  if (n <= 0) return false;
  pending_.append(bytes, static_cast<size_t>(n));
  return true;
}

std::string Peer::ReadUntil(std::string_view needle) {
  while (pending_.find(needle) == std::string::npos) {
    if (!Fill()) {
      ADD_FAILURE() << "the stream ended before \"" << needle << "\": " << pending_;
      return std::exchange(pending_, {});
    }
  }
  return ReadExactly(pending_.find(needle) + needle.size());
}

std::string Peer::ReadExactly(size_t n) {
  while (pending_.size() < n) {
    if (!Fill()) {
      ADD_FAILURE() << "the stream ended before " << n << " bytes: " << pending_;
      return std::exchange(pending_, {});
    }
  }
  std::string taken = pending_.substr(0, n);
  pending_.erase(0, n);
  return taken;
}

std::string Peer::ReadToEnd(bool* reset) {
  while (Fill()) {
  }
  if (reset != nullptr) *reset = reset_;
  return std::exchange(pending_, {});
}

std::string Peer::ReadResponse() {
  std::string head = ReadUntil("\r\n\r\n");
  const auto lengths = FieldsOf(head, "content-length");
  EXPECT_EQ(lengths.size(), 1U) << head;
  if (lengths.empty()) return head;
  return head + ReadExactly(std::stoul(lengths.front()));
}

void Peer::ShutdownWrite() {
  if (ssl_) SSL_shutdown(ssl_.get());
  shutdown(fd_.get(), SHUT_WR);
}

UnixListener::UnixListener() {
  char name[] = "/tmp/atoll-http-XXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  directory_ = name;
  path_ = directory_ + "/s";
  fd_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd_.get(), 64), 0);
}

UnixListener::~UnixListener() {
  unlink(path_.c_str());
  rmdir(directory_.c_str());
}

Peer UnixListener::Accept() {
  pollfd wait{fd_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, kPatienceMs), 1) << "nobody connects";
  return Peer(UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

bool UnixListener::HasWaiting() const {
  pollfd wait{fd_.get(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

RunningServer::RunningServer(Handler handler, ServerConfig config) : loop_(*PooledLoop::Create(2)) {
  signal(SIGPIPE, SIG_IGN);
  config.port = 0;
  if (kOverTls && !config.tls) config.tls = ServerTls();
  auto server = Server::Listen(*loop_, config, std::move(handler));
  EXPECT_TRUE(server.has_value()) << server.error().message();
  server_ = std::move(*server);
  thread_ = std::thread([this] { loop_->Run(); });
}

RunningServer::~RunningServer() {
  OnLoop([this] { server_.reset(); });
  loop_->Quit();
  thread_.join();
}

void RunningServer::OnLoop(const std::function<void()>& work) {
  std::promise<void> done;
  loop_->Post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

std::vector<std::string> FieldsOf(const std::string& head, std::string_view name) {
  std::vector<std::string> values;
  size_t start = head.find("\r\n");
  while (start != std::string::npos && start + 2 < head.size()) {
    start += 2;
    const size_t end = head.find("\r\n", start);
    const std::string_view line = std::string_view(head).substr(start, end - start);
    const size_t colon = line.find(':');
    if (line.empty()) break;
    if (colon != std::string_view::npos && EqualNoCase(line.substr(0, colon), name)) {
      values.emplace_back(TrimBlanks(line.substr(colon + 1)));
    }
    start = end;
  }
  return values;
}

std::string BodyOf(const std::string& response) {
  return response.substr(response.find("\r\n\r\n") + 4);
}

}  // namespace atl::http
