// Speaks to the network from inside a sandbox, with the capabilities that it has there. Each
// argument is one action, such as "tcp 203.0.113.7 80 send=474554 want=1". Each action prints one
// line: its outcome and the received bytes in hexadecimal. The program is static, so that it runs
// in any image.
//
//   tcp ADDRESS PORT        connects, sends, receives
//   udp ADDRESS PORT        the same over a connected socket, which receives ICMP errors
//   ping ADDRESS            sends one ICMP echo
//   sctp ADDRESS PORT       connects
//   raw ADDRESS PROTOCOL    sends one packet; with header=1 `send` begins with the IP header
//   packet LINK             sends one frame unchanged
//   many ADDRESS PORT       opens count=N connections (udp=1: datagrams) at once: "ok 17" succeeded
//   race ADDRESS PORT       makes count=N attempts one after the other: "ok 0" succeeded
//   flow SOCKET ADDRESS PORT  keeps a connection (udp=1: a datagram socket), used by `poke`
//   poke SOCKET             sends over that connection and receives
//
// Options:
// - send=HEX, fill=N (N zero bytes after it), split=N (`send` in two segments), then=HEX (sent
//   after the first answer);
// - want=N (stops after N bytes; default 1), prefixed=1 (stops after the length that the first
//   two bytes give), all=1 (reads until the other side closes);
// - wait=MS (limit of each step), from=ADDRESS, port=N (own port), options=HEX (IPv4 options),
//   count=N;
// - hold=1 (does not exit), length=1 (prints the number of bytes instead of the bytes).
//
// Outcomes: ok, refused, reset, closed, unreachable, prohibited, timeout, eperm, or the error's
// name.

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

// Returns 0 if the text is not a number.
int ParseNumber(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

constexpr int kSctp = 132;

std::string FromHex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

struct Action {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  explicit Action(const char* text) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        words.push_back(word);
      } else {
        options[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    words.resize(std::max<size_t>(words.size(), 4));
  }
  int Number(const char* name, int otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : ParseNumber(found->second);
  }
  std::string Bytes(const char* name) const {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : FromHex(found->second);
  }
  std::string Payload() const {
    return Bytes("send") + std::string(static_cast<size_t>(Number("fill", 0)), '\0');
  }
  int wait() const { return Number("wait", 2000); }
};

struct Outcome {
  std::string word;
  std::string bytes;
};

int64_t NowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

std::string WordFor(int error) {
  switch (error) {
    case 0:
      return "ok";
    case ECONNREFUSED:
      return "refused";
    case ECONNRESET:
    case EPIPE:
      return "reset";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return "unreachable";
    case ETIMEDOUT:
    case EAGAIN:
      return "timeout";
    case EACCES:
      return "prohibited";  // reported by ICMPv6
    case EPERM:
      return "eperm";
    default:
      return strerrorname_np(error);
  }
}

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

bool IsIpv6(const std::string& text) {
  return text.find(':') != std::string::npos;
}

// "fe80::1%eth0" includes its link.
socklen_t Parse(const std::string& text, int port, Address* address) {
  *address = {};
  if (!IsIpv6(text)) {
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, text.c_str(), &address->v4.sin_addr);
    return sizeof address->v4;
  }
  const size_t percent = text.find('%');
  address->v6.sin6_family = AF_INET6;
  address->v6.sin6_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address->v6.sin6_addr);
  if (percent != std::string::npos) {
    address->v6.sin6_scope_id = ::if_nametoindex(text.c_str() + percent + 1);
  }
  return sizeof address->v6;
}

// Returns false if `deadline` passes first.
bool Await(int fd, short events, int64_t deadline) {
  pollfd waiting{fd, events, 0};
  const int64_t left = deadline - NowMs();
  return ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left, 0))) == 1;
}

int Prepare(int fd, const Action& action, const std::string& peer) {
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const std::string ip_options = action.Bytes("options");
  if (!ip_options.empty() && ::setsockopt(fd, IPPROTO_IP, IP_OPTIONS, ip_options.data(),
                                          static_cast<socklen_t>(ip_options.size())) != 0) {
    return errno;
  }
  const auto from = action.options.find("from");
  const int port = action.Number("port", 0);
  if (from == action.options.end() && port == 0) return 0;
  Address own;
  const std::string any = IsIpv6(peer) ? "::" : "0.0.0.0";
  const socklen_t size = Parse(from == action.options.end() ? any : from->second, port, &own);
  if (from != action.options.end()) {
    // Also allows an address that this namespace does not have. IPv4 finds no route from such an
    // address unless the socket is transparent.
    for (const int option : {IP_FREEBIND, IP_TRANSPARENT}) {
      ::setsockopt(fd, IPPROTO_IP, option, &one, sizeof one);
    }
    for (const int option : {IPV6_FREEBIND, IPV6_TRANSPARENT}) {
      ::setsockopt(fd, IPPROTO_IPV6, option, &one, sizeof one);
    }
  }
  return ::bind(fd, &own.any, size) == 0 ? 0 : errno;
}

// Returns an errno, or 0 and a connected socket.
int Connect(const Action& action, const std::string& host, int port, int type, int protocol,
            int* fd) {
  *fd = ::socket(IsIpv6(host) ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  if (*fd < 0) return errno;
  if (const int error = Prepare(*fd, action, host); error != 0) return error;
  Address peer;
  const socklen_t size = Parse(host, port, &peer);
  if (::connect(*fd, &peer.any, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!Await(*fd, POLLOUT, NowMs() + action.wait())) return ETIMEDOUT;
  int error = 0;
  socklen_t error_size = sizeof error;
  ::getsockopt(*fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
  return error;
}

// Sends and receives at the same time, because a large echo would fill the buffers in between.
Outcome Talk(int fd, const Action& action, bool stream) {
  std::string to_send = action.Payload(), then = action.Bytes("then"), received;
  const auto split = static_cast<size_t>(action.Number("split", 0));
  const bool all = action.Number("all", 0) != 0;
  const bool prefixed = action.Number("prefixed", 0) != 0;
  auto want = static_cast<size_t>(action.Number("want", prefixed ? 2 : 1));
  size_t sent = 0;
  int64_t deadline = NowMs() + action.wait();
  while (all || received.size() < want || !then.empty()) {
    const bool writing = sent < to_send.size();
    if (!Await(fd, static_cast<short>(writing ? POLLIN | POLLOUT : POLLIN), deadline)) {
      return {"timeout", received};
    }
    if (writing) {
      const size_t end = split > sent ? split : to_send.size();
      const ssize_t n = ::send(fd, to_send.data() + sent, end - sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return {WordFor(errno), received};
      if (n > 0) {
        sent += static_cast<size_t>(n);
        deadline = NowMs() + action.wait();
      }
    }
    char buffer[65536];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) continue;
    if (n < 0) return {WordFor(errno), received};
    if (n == 0 && stream) return {all ? "ok" : "closed", received};
    received.append(buffer, static_cast<size_t>(n));
    deadline = NowMs() + action.wait();
    if (prefixed && received.size() >= 2) {
      want = 2 + (static_cast<uint8_t>(received[0]) << 8 | static_cast<uint8_t>(received[1]));
    }
    if (received.size() >= want && !then.empty()) {
      to_send.append(then);
      then.clear();
      received.append("\n--\n");
      want = received.size() + 1;
    }
  }
  return {"ok", received};
}

Outcome Connected(const Action& action, int type, int protocol) {
  int fd = -1;
  const int error =
      Connect(action, action.words[1], ParseNumber(action.words[2]), type, protocol, &fd);
  Outcome outcome{WordFor(error), ""};
  const bool talks = action.options.contains("send") || action.Number("fill", 0) > 0;
  if (error == 0 && (talks || action.Number("all", 0) != 0)) {
    outcome = Talk(fd, action, type == SOCK_STREAM);
  }
  ::close(fd);
  return outcome;
}

Outcome Ping(const Action& action) {
  const bool ipv6 = IsIpv6(action.words[1]);
  Action echo = action;
  // ICMP_ECHO or ICMP6_ECHO_REQUEST; the kernel fills in checksum and identifier.
  echo.options["send"] = (ipv6 ? "80" : "08") + std::string("00000000000001") + "61746f6c6c";
  echo.words[2] = "0";
  return Connected(echo, SOCK_DGRAM, ipv6 ? int{IPPROTO_ICMPV6} : int{IPPROTO_ICMP});
}

Outcome Raw(const Action& action) {
  const std::string& host = action.words[1];
  const bool own_header = action.Number("header", 0) != 0;
  const int fd = ::socket(IsIpv6(host) ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_CLOEXEC,
                          own_header ? int{IPPROTO_RAW} : ParseNumber(action.words[2]));
  if (fd < 0) return {WordFor(errno), ""};
  const std::string bytes = action.Payload();
  Address peer;
  const socklen_t size = Parse(host, 0, &peer);
  const ssize_t n = ::sendto(fd, bytes.data(), bytes.size(), 0, &peer.any, size);
  const Outcome outcome{n < 0 ? WordFor(errno) : "ok", ""};
  ::close(fd);
  return outcome;
}

Outcome Packet(const Action& action) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return {WordFor(errno), ""};
  sockaddr_ll link{};
  link.sll_family = AF_PACKET;
  link.sll_ifindex = static_cast<int>(::if_nametoindex(action.words[1].c_str()));
  link.sll_halen = 6;
  const std::string frame = action.Payload();
  frame.copy(reinterpret_cast<char*>(link.sll_addr), 6);
  const ssize_t n = ::sendto(fd, frame.data(), frame.size(), 0,
                             reinterpret_cast<const sockaddr*>(&link), sizeof link);
  const Outcome outcome{n < 0 ? WordFor(errno) : "ok", ""};
  ::close(fd);
  return outcome;
}

// Opens the requested number of sockets at once. Reports the outcome of those that failed.
Outcome Many(const Action& action) {
  const rlimit enough{65536, 65536};
  ::setrlimit(RLIMIT_NOFILE, &enough);
  const bool udp = action.Number("udp", 0) != 0;
  const int port = ParseNumber(action.words[2]);
  Action datagram = action;
  if (!action.options.contains("send")) datagram.options["send"] = "6d";
  std::map<std::string, int> counts;
  for (int i = 0; i < action.Number("count", 1); ++i) {
    int fd = -1;
    const int type = udp ? SOCK_DGRAM : SOCK_STREAM;
    const int error = Connect(action, action.words[1], port, type, 0, &fd);
    std::string word = WordFor(error);
    if (error == 0 && udp) word = Talk(fd, datagram, false).word;
    ++counts[word];
  }
  std::string text = "ok " + std::to_string(counts["ok"]);
  for (const auto& [word, count] : counts) {
    if (word != "ok") text += " " + word + " " + std::to_string(count);
  }
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  while (action.Number("hold", 0) != 0) ::pause();
  return {};
}

Outcome Race(const Action& action) {
  int reached = 0;
  std::string last;
  for (int i = 0; i < action.Number("count", 1); ++i) {
    int fd = -1;
    const int error =
        Connect(action, action.words[1], ParseNumber(action.words[2]), SOCK_STREAM, 0, &fd);
    if (error == 0) {
      ++reached;
    } else {
      last = WordFor(error);
    }
    ::close(fd);
  }
  std::printf("ok %d %s\n", reached, last.c_str());
  return {};
}

sockaddr_un Local(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

void Print(const Outcome& outcome, const Action& action, FILE* to) {
  std::string text = outcome.word + " ";
  if (action.Number("length", 0) != 0) {
    text += std::to_string(outcome.bytes.size());
  } else {
    for (const char c : outcome.bytes) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      text += digits;
    }
  }
  std::fprintf(to, "%s\n", text.c_str());
  std::fflush(to);
}

// The request of a `poke` is its own action as text. The answer is the line that it prints.
Outcome Flow(const Action& action) {
  int fd = -1;
  const bool udp = action.Number("udp", 0) != 0;
  const int error = Connect(action, action.words[2], ParseNumber(action.words[3]),
                            udp ? SOCK_DGRAM : SOCK_STREAM, 0, &fd);
  if (error != 0) return {WordFor(error), ""};
  const std::string& path = action.words[1];
  ::unlink(path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Local(path);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 8) != 0) {
    return {WordFor(errno), ""};
  }
  Print({"ok", ""}, action, stdout);
  while (true) {
    const int asker = ::accept(listener, nullptr, nullptr);
    if (asker < 0) return {WordFor(errno), ""};
    static char text[1 << 16];
    const ssize_t n = ::recv(asker, text, sizeof text - 1, 0);
    text[std::max<ssize_t>(n, 0)] = '\0';
    const Action poke(text);
    FILE* answer = ::fdopen(asker, "w");
    Print(Talk(fd, poke, !udp), poke, answer);
    std::fclose(answer);
  }
}

Outcome Poke(const char* text, const Action& action) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Local(action.words[1]);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {std::string("no-flow-") + WordFor(errno), ""};
  }
  ::send(fd, text, strlen(text), MSG_NOSIGNAL);
  static char answer[1 << 16];
  const ssize_t n = ::recv(fd, answer, sizeof answer, 0);
  std::fwrite(answer, 1, static_cast<size_t>(std::max<ssize_t>(n, 0)), stdout);
  return {};
}

Outcome Play(const char* text, const Action& action) {
  const std::string& kind = action.words[0];
  if (kind == "tcp") return Connected(action, SOCK_STREAM, 0);
  if (kind == "udp") return Connected(action, SOCK_DGRAM, 0);
  if (kind == "sctp") return Connected(action, SOCK_STREAM, kSctp);
  if (kind == "ping") return Ping(action);
  if (kind == "raw") return Raw(action);
  if (kind == "packet") return Packet(action);
  if (kind == "many") return Many(action);
  if (kind == "race") return Race(action);
  if (kind == "flow") return Flow(action);
  if (kind == "poke") return Poke(text, action);
  return {"no-such-action", ""};
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const Action action(argv[i]);
    const Outcome outcome = Play(argv[i], action);
    if (!outcome.word.empty()) Print(outcome, action, stdout);
  }
}
