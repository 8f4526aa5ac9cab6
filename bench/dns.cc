// Measures the sandboxes' name server beside a thread that echoes datagrams. Client, name server
// and a simulated upstream are threads, on loopback in a network namespace of its own.
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/dns_servers.h"
#include "bench/netns.h"
#include "bench/phase.h"
#include "netpolicy/dns/dns_lookup.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {
namespace {

using netpolicy::Endpoint;

constexpr int kPatienceMs = 1000;
constexpr int kNames = 1000;
constexpr int kRateMs = 1500;
constexpr int kWindow = 64;
constexpr unsigned kClientProcessor = 0;
constexpr unsigned kServerProcessor = 1;

std::vector<uint8_t> QueryFor(const std::string& name) {
  return netpolicy::MakeDnsQuery(*netpolicy::LookupOf(name, netpolicy::kDnsTypeA), 7, false);
}

Result<UniqueFd> ConnectTo(const Endpoint& server) {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), server.get(), server.size) != 0) {
    return FailSys("connect " + server.ToString());
  }
  return socket;
}

Status AwaitReadable(int fd) {
  pollfd poll{fd, POLLIN, 0};
  if (::poll(&poll, 1, kPatienceMs) == 1) return {};
  return Fail(Code::kDeadlineExceeded, "no answer from the name server");
}

// Returns the microseconds until the right answer has arrived.
Result<int64_t> AskOnce(int fd, const std::string& name) {
  const std::vector<uint8_t> query = QueryFor(name);
  std::array<uint8_t, 512> answer;
  const int64_t start = NowMicros();
  if (::send(fd, query.data(), query.size(), 0) < 0) return FailSys("send");
  ATOLL_TRY(AwaitReadable(fd));
  const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
  const int64_t micros = MicrosSince(start);
  // A refusal must not count as a fast answer.
  const auto header = netpolicy::ParseDnsHeader(std::span(answer).first(n < 0 ? 0 : size_t(n)));
  if (!header || header->rcode() != 0 || header->answers != 1) {
    return Fail(Code::kInternal, "wrong answer for " + name);
  }
  return micros;
}

// Sends and receives datagrams in batches, so that the server is the bottleneck and not the client.
class Flood {
 public:
  Flood(UniqueFd socket, int names) : socket_(std::move(socket)) {
    for (int i = 0; i < names; ++i) queries_.push_back(QueryFor(std::to_string(i) + ".example"));
  }

  Status Send(size_t count) {
    std::vector<mmsghdr> headers(count);
    std::vector<iovec> vectors(count);
    for (size_t i = 0; i < count; ++i) {
      std::vector<uint8_t>& query = queries_[next_++ % queries_.size()];
      vectors[i] = {query.data(), query.size()};
      headers[i].msg_hdr.msg_iov = &vectors[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = ::sendmmsg(socket_.get(), headers.data(), static_cast<unsigned>(count), 0);
    if (sent != static_cast<int>(count)) return FailSys("sendmmsg");
    return {};
  }

  Result<size_t> Receive() {
    ATOLL_TRY(AwaitReadable(socket_.get()));
    std::array<std::array<uint8_t, 512>, kWindow> buffers;
    std::array<mmsghdr, kWindow> headers{};
    std::array<iovec, kWindow> vectors;
    for (size_t i = 0; i < headers.size(); ++i) {
      vectors[i] = {buffers[i].data(), buffers[i].size()};
      headers[i].msg_hdr.msg_iov = &vectors[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int count =
        ::recvmmsg(socket_.get(), headers.data(), headers.size(), MSG_DONTWAIT, nullptr);
    if (count < 0) return FailSys("recvmmsg");
    return static_cast<size_t>(count);
  }

 private:
  UniqueFd socket_;
  std::vector<std::vector<uint8_t>> queries_;
  size_t next_ = 0;
};

struct Rate {
  double per_second = 0;
  double per_processor_second = 0;  // answers per second of the server thread's CPU time
};
// Sends questions for cached names over UDP, with kWindow of them in flight.
template <typename Server>
Result<Rate> MeasureRate(Server& server) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectTo(server.endpoint()));
  Flood flood(std::move(socket), kNames);
  // Asks for every name once, so that all of them are cached.
  for (int i = 0; i < kNames; ++i) {
    ATOLL_TRY(flood.Send(1));
    ATOLL_TRY(flood.Receive());
  }
  const double before = server.ProcessorSeconds();
  const int64_t start = NowMicros();
  size_t answers = 0;
  ATOLL_TRY(flood.Send(kWindow));
  int64_t now = start;
  while (now - start < int64_t{kRateMs} * 1000) {
    ATOLL_ASSIGN(const size_t count, flood.Receive());
    answers += count;
    ATOLL_TRY(flood.Send(count));
    now = NowMicros();
  }
  const auto total = static_cast<double>(answers);
  Rate result;
  result.per_second = total * 1e6 / static_cast<double>(now - start);
  result.per_processor_second = total / (server.ProcessorSeconds() - before);
  return result;
}

struct DnsLab {
  std::unique_ptr<DatagramServer> upstream, echo;
  std::unique_ptr<NameServer> server;
  UniqueFd direct, forwarded;
  int names = 0;

  Status Open() {
    ATOLL_TRY(NewNetns());
    PinThread(kClientProcessor);
    using Kind = DatagramServer::Kind;
    ATOLL_ASSIGN(upstream, DatagramServer::Start(Kind::kNames, kClientProcessor));
    ATOLL_ASSIGN(echo, DatagramServer::Start(Kind::kEcho, kServerProcessor));
    ATOLL_ASSIGN(server, NameServer::Start(upstream->endpoint(), kServerProcessor));
    ATOLL_ASSIGN(direct, ConnectTo(upstream->endpoint()));
    ATOLL_ASSIGN(forwarded, ConnectTo(server->endpoint()));
    return {};
  }

  // Asks the three servers one after the other, each after a rest.
  Status Delays(Take& take) {
    const std::string name = "n" + std::to_string(names++) + ".example";
    const double before = server->ProcessorSeconds();
    const auto ask = [&](int fd, const char* series) -> Status {
      Rest(2);
      ATOLL_ASSIGN(const int64_t micros, AskOnce(fd, name));
      take.AddMs(series, micros);
      return {};
    };
    ATOLL_TRY(ask(direct.get(), "upstream, directly"));
    ATOLL_TRY(ask(forwarded.get(), "through the name server"));
    ATOLL_TRY(ask(forwarded.get(), "from the cache"));
    take.Add("processor time of these two", (server->ProcessorSeconds() - before) * 1000);
    return {};
  }
};

}  // namespace

Phases DnsPhases(const Setting&) {
  const auto lab = std::make_shared<DnsLab>();
  const std::string known = "64 questions under way for 1,000 known names, for 1.5 s";
  return {
      {.run = [=](Take&) { return lab->Open(); }},
      {.series = {{"answers a second and core",
                   known + "; of the name server's own time",
                   "1/s",
                   {{.at_least = 20000},
                    {.at_least = 0.6, .over = "dns/echo a second and core", .must = true}}},
                  {"answers a second", known, "1/s", {}}},
       .samples = 5,
       .turns = "rate",
       .run = [=](Take& take) -> Status {
         ATOLL_ASSIGN(const Rate rate, MeasureRate(*lab->server));
         take.Add("answers a second and core", rate.per_processor_second);
         take.Add("answers a second", rate.per_second);
         return {};
       }},
      {.series = {{"echo a second and core", "each datagram sent back as it is", "1/s", {}}},
       .samples = 5,
       .turns = "rate",
       .run = [=](Take& take) -> Status {
         ATOLL_ASSIGN(const Rate rate, MeasureRate(*lab->echo));
         take.Add("echo a second and core", rate.per_processor_second);
         return {};
       }},
      {.series = {{"upstream, directly", "question → answer", "ms", {}},
                  {"through the name server",
                   "a name that it has not heard of",
                   "ms",
                   {{.at_most = 0.3, .less = "dns/upstream, directly"}}},
                  {"from the cache", "the same name again", "ms", {}},
                  {"processor time of these two", "of the name server's thread", "ms", {}}},
       .samples = 400,
       .run = [=](Take& take) { return lab->Delays(take); }},
  };
}

}  // namespace atl::bench
