#include "bench/dns_servers.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <ctime>

#include "netpolicy/dns/dns_answer.h"

namespace atl::bench {
namespace {

using netpolicy::DnsForwarder;
using netpolicy::Endpoint;

class OpenGate : public netpolicy::DnsGate {
 public:
  Judgement Judge(std::string_view, std::string_view, uint16_t) override {
    Judgement judgement;
    judgement.under_policy = true;
    return judgement;
  }
  bool Learn(std::string_view, std::string_view, const std::vector<std::string>&,
             const std::vector<netpolicy::IpAddress>&, uint32_t) override {
    return true;
  }
};

double SecondsOf(std::thread& thread) {
  clockid_t clock = 0;
  timespec time{};
  if (::pthread_getcpuclockid(thread.native_handle(), &clock) != 0) return 0;
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::vector<uint8_t> AnswerTo(std::span<const uint8_t> message) {
  const auto query = netpolicy::ParseDnsQuery(message);
  if (!query) return {};
  netpolicy::IpAddress address;
  address.bytes = {192, 0, 2, 80};
  return MakeDnsReply(query->query,
                      netpolicy::MakeDnsAnswer(query->query.question.type, std::span(&address, 1),
                                               netpolicy::kDnsMaxTtl));
}

}  // namespace

void PinThread(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % std::max(1U, std::thread::hardware_concurrency()), &set);
  // Ignores a refusal: the kernel then chooses the CPU.
  (void)::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

Result<std::unique_ptr<DatagramServer>> DatagramServer::Start(Kind kind, unsigned processor) {
  std::unique_ptr<DatagramServer> server(new DatagramServer);
  server->socket_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  server->stop_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!server->socket_ || !server->stop_) return FailSys("socket");
  auto* in = reinterpret_cast<sockaddr_in*>(&server->endpoint_.address);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  server->endpoint_.size = sizeof *in;
  if (::bind(server->socket_.get(), server->endpoint_.get(), server->endpoint_.size) != 0 ||
      ::getsockname(server->socket_.get(), server->endpoint_.get(), &server->endpoint_.size) != 0) {
    return FailSys("bind to loopback");
  }
  DatagramServer* self = server.get();
  server->thread_ = std::thread([self, kind, processor] {
    PinThread(processor);
    self->Serve(kind);
  });
  return server;
}

DatagramServer::~DatagramServer() {
  if (!thread_.joinable()) return;
  (void)::eventfd_write(stop_.get(), 1);
  thread_.join();
}

double DatagramServer::ProcessorSeconds() {
  return SecondsOf(thread_);
}

void DatagramServer::Serve(Kind kind) {
  std::array<uint8_t, 2048> buffer;
  std::array<pollfd, 2> fds{pollfd{socket_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
  while (::poll(fds.data(), fds.size(), -1) > 0 && fds[1].revents == 0) {
    for (;;) {
      Endpoint from;
      const ssize_t n =
          ::recvfrom(socket_.get(), buffer.data(), buffer.size(), 0, from.get(), &from.size);
      if (n < 0) break;
      std::span<const uint8_t> answer = std::span(buffer).first(static_cast<size_t>(n));
      std::vector<uint8_t> built;
      if (kind == Kind::kNames) answer = built = AnswerTo(answer);
      (void)::sendto(socket_.get(), answer.data(), answer.size(), 0, from.get(), from.size);
    }
  }
}

Result<std::unique_ptr<NameServer>> NameServer::Start(const Endpoint& upstream,
                                                      unsigned processor) {
  constexpr uint32_t kNoLimit = 1'000'000;
  std::unique_ptr<NameServer> server(new NameServer);
  DnsForwarder::Config config;
  config.listen = {"127.0.0.1"};
  config.port = 0;
  config.upstreams = {upstream.ToString()};
  config.limits.source.questions = {kNoLimit, kNoLimit};
  config.limits.source.leaving = {kNoLimit, kNoLimit};
  ATOLL_ASSIGN(server->forwarder_, DnsForwarder::Open(std::move(config)));
  server->gate_ = std::make_unique<OpenGate>();
  ATOLL_ASSIGN(server->loop_, http::PooledLoop::Create(1));
  ATOLL_TRY(server->forwarder_->Start(*server->loop_, server->gate_.get()));
  server->thread_ = std::thread([loop = server->loop_.get(), processor] {
    PinThread(processor);
    loop->Run();
  });
  return server;
}

NameServer::~NameServer() {
  if (thread_.joinable()) {
    loop_->Post([this] { loop_->Quit(); });
    thread_.join();
  }
  forwarder_.reset();
}

double NameServer::ProcessorSeconds() {
  return SecondsOf(thread_);
}

}  // namespace atl::bench
