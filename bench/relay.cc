#include "bench/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/clock.h"
#include "bench/lean_client.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr size_t kPiece = 64 << 10;
constexpr char kUpload = 'u', kDownload = 'd', kDone = '.';

const std::vector<char>& Piece() {
  static const std::vector<char> piece(kPiece, 'x');
  return piece;
}

// Copies everything from one socket to the other until its end. Returns false if either fails.
bool Copy(int from, int to) {
  std::vector<char> buffer(kPiece);
  for (;;) {
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n <= 0) return n == 0;
    if (!sys::WriteAll(to, {buffer.data(), static_cast<size_t>(n)})) return false;
  }
}

// Runs in the far process. One byte tells it whether to read or to write the file.
void ServeFile(int client, const std::string& path) {
  char what = 0;
  if (::read(client, &what, 1) != 1) return;
  const UniqueFd file(::open(
      path.c_str(),
      what == kUpload ? O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644));
  if (!file) return;
  if (what == kUpload) {
    if (Copy(client, file.get())) [[maybe_unused]]
      const ssize_t n = ::write(client, &kDone, 1);
    return;
  }
  while (::sendfile(client, file.get(), nullptr, 1 << 20) > 0) {
  }
}

// Runs in the near process. Copies both directions, as a proxy does.
void Pass(int client, const std::string& socket_path) {
  const UniqueFd far(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  if (::connect(far.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  std::vector<char> buffer(kPiece);
  pollfd both[2] = {{client, POLLIN, 0}, {far.get(), POLLIN, 0}};
  while (both[1].fd >= 0 && ::poll(both, 2, -1) > 0) {
    for (int i = 0; i < 2; ++i) {
      if (both[i].fd < 0 || both[i].revents == 0) continue;
      const int to = i == 0 ? far.get() : client;
      const ssize_t n = ::read(both[i].fd, buffer.data(), buffer.size());
      if (n > 0 && sys::WriteAll(to, {buffer.data(), static_cast<size_t>(n)})) continue;
      ::shutdown(to, SHUT_WR);
      both[i].fd = -1;
    }
  }
}

// Runs `serve` in a child that dies with this process.
template <typename F>
Result<pid_t> Serve(int listener, F serve) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return pid;
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == parent) {
    const UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (client) serve(client.get());
  }
  ::_exit(0);
}

}  // namespace

Status SendBytes(int socket, uint64_t size) {
  while (size > 0) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(size, kPiece));
    ATOLL_TRY(sys::WriteAll(socket, {Piece().data(), part}));
    size -= part;
  }
  return {};
}

Status TakeBytes(int socket, uint64_t size) {
  std::vector<char> buffer(kPiece);
  while (size > 0) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(size, kPiece));
    const ssize_t n = ::read(socket, buffer.data(), part);
    if (n < 0) return FailSys("read");
    if (n == 0) {
      return Fail(Code::kUnavailable, std::to_string(size) + " bytes are missing at the end");
    }
    size -= static_cast<uint64_t>(n);
  }
  return {};
}

Result<std::unique_ptr<Relay>> Relay::Start(const std::string& directory) {
  std::unique_ptr<Relay> relay(new Relay());
  relay->top_ = directory;
  if (::mkdir(directory.c_str(), 0755) != 0) return FailSys("mkdir " + directory);
  const std::string path = directory + "/socket", file = directory + "/file";
  const UniqueFd far(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
  const UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(far.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(far.get(), 8) != 0 ||
      ::bind(near.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(near.get(), 8) != 0 ||
      ::getsockname(near.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return FailSys("listen for the relay");
  }
  relay->port_ = ntohs(address.sin_port);
  ATOLL_ASSIGN(relay->far_, Serve(far.get(), [&](int client) { ServeFile(client, file); }));
  ATOLL_ASSIGN(relay->near_, Serve(near.get(), [&](int client) { Pass(client, path); }));
  return relay;
}

Relay::~Relay() {
  for (const pid_t pid : {near_, far_}) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

Result<double> Relay::Upload(uint64_t size) {
  ATOLL_ASSIGN(const UniqueFd socket, ConnectLoopback(port_));
  const int64_t start = NowMicros();
  ATOLL_TRY(sys::WriteAll(socket.get(), {&kUpload, 1}));
  ATOLL_TRY(SendBytes(socket.get(), size));
  ::shutdown(socket.get(), SHUT_WR);
  ATOLL_TRY(TakeBytes(socket.get(), 1));
  return static_cast<double>(size) * 1e6 / static_cast<double>(NowMicros() - start);
}

Result<double> Relay::Download(uint64_t size) {
  ATOLL_ASSIGN(const UniqueFd socket, ConnectLoopback(port_));
  const int64_t start = NowMicros();
  ATOLL_TRY(sys::WriteAll(socket.get(), {&kDownload, 1}));
  ATOLL_TRY(TakeBytes(socket.get(), size));
  return static_cast<double>(size) * 1e6 / static_cast<double>(NowMicros() - start);
}

}  // namespace atl::bench
