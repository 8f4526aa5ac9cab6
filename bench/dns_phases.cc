#include "bench/dns_phases.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "netpolicy/dns/dns_lookup.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {
namespace {

using netpolicy::Endpoint;

constexpr int kPatienceMs = 1000;

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

Status AskOnce(int fd, const std::string& name, Samples* samples) {
  const std::vector<uint8_t> query = QueryFor(name);
  std::array<uint8_t, 512> answer;
  const int64_t start = NowMicros();
  if (::send(fd, query.data(), query.size(), 0) < 0) return FailSys("send");
  ATOLL_TRY(AwaitReadable(fd));
  const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
  samples->AddSince(start);
  // A refusal would be fast, too.
  const auto header = netpolicy::ParseDnsHeader(std::span(answer).first(n < 0 ? 0 : size_t(n)));
  if (!header || header->rcode() != 0 || header->answers != 1) {
    return Fail(Code::kInternal, "wrong answer for " + name);
  }
  return {};
}

// Datagrams in and out by the batch, so that the server and not the client is the bottleneck.
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
    std::array<std::array<uint8_t, 512>, kDnsWindow> buffers;
    std::array<mmsghdr, kDnsWindow> headers{};
    std::array<iovec, kDnsWindow> vectors;
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

}  // namespace

Result<DnsRateResult> MeasureDnsRate(const Endpoint& server,
                                     const std::function<double()>& processor_seconds, int names,
                                     int milliseconds) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectTo(server));
  Flood flood(std::move(socket), names);
  // Once around, so that every name is known.
  for (int i = 0; i < names; ++i) {
    ATOLL_TRY(flood.Send(1));
    ATOLL_TRY(flood.Receive());
  }
  const double before = processor_seconds();
  const int64_t start = NowMicros();
  size_t answers = 0;
  ATOLL_TRY(flood.Send(kDnsWindow));
  int64_t now = start;
  while (now - start < int64_t{milliseconds} * 1000) {
    ATOLL_ASSIGN(const size_t count, flood.Receive());
    answers += count;
    ATOLL_TRY(flood.Send(count));
    now = NowMicros();
  }
  const auto total = static_cast<double>(answers);
  DnsRateResult result;
  result.per_second = total * 1e6 / static_cast<double>(now - start);
  result.per_processor_second = total / (processor_seconds() - before);
  return result;
}

Result<DnsDelays> MeasureDnsDelays(const Endpoint& upstream, const Endpoint& server,
                                   const std::function<double()>& processor_seconds, int count,
                                   int rest_ms) {
  ATOLL_ASSIGN(const UniqueFd direct, ConnectTo(upstream));
  ATOLL_ASSIGN(const UniqueFd forwarded, ConnectTo(server));
  DnsDelays delays;
  const double before = processor_seconds();
  for (int i = 0; i < count; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example";
    Rest(rest_ms);
    ATOLL_TRY(AskOnce(direct.get(), name, &delays.direct));
    Rest(rest_ms);
    ATOLL_TRY(AskOnce(forwarded.get(), name, &delays.forwarded));
    Rest(rest_ms);
    ATOLL_TRY(AskOnce(forwarded.get(), name, &delays.cached));
  }
  delays.processor_ms = (processor_seconds() - before) * 1000 / count;
  return delays;
}

Status EnterOwnNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) return FailSys("unshare CLONE_NEWNET");
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return FailSys("lo up");
  return {};
}

}  // namespace atl::bench
