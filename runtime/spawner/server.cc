#include "runtime/spawner/server.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/notify.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/limit_policy.h"

namespace atl::spawner {
namespace {

constexpr int kSweepMillis = 5;
// A stopped process 1 is to be noticed within a second.
constexpr int kLookMillis = 800;
constexpr int kSendBuffer = 1 << 20;
// No further request is read while more replies than these wait for the daemon to read them. What
// comes on top are answers to what it has asked already, and exits, of which a sandbox has one.
constexpr size_t kMaxWaiting = 256;

Result<UniqueFd> Bind(const std::string& path, uid_t owner) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument,
                "'" + path + "' is too long for a socket: choose a shorter run_dir");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return FailSys("socket");
  ::unlink(path.c_str());
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("bind " + path);
  }
  if (::chmod(path.c_str(), 0600) != 0 ||
      ::chown(path.c_str(), owner, static_cast<gid_t>(-1)) != 0) {
    return FailSys("chown " + path);
  }
  if (::listen(listener.get(), 8) != 0) return FailSys("listen " + path);
  return listener;
}

bool HungUp(int connection) {
  pollfd state{connection, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
}

bool IsFull(const Error& error) {
  const int number = error.error_number();
  // The last: too many descriptors on their way through sockets.
  return number == EAGAIN || number == ENOBUFS || number == ENOMEM || number == ETOOMANYREFS;
}

}  // namespace

Server::Server(Host& host, Poller& poller, Janitor janitor, UniqueFd records)
    : host_(host),
      poller_(poller),
      janitor_(std::move(janitor)),
      sandboxes_(host, poller, std::move(records),
                 [this](const wire::SandboxRecord& record) {
                   wire::Reply event;
                   event.sandboxes.push_back(record);
                   Send(connection_number_, event);
                 }),
      slots_(
          host, poller, janitor_, [this] { return sandboxes_.SlotsInUse(); },
          [this] {
            // A copy of one would keep the daemon from seeing that we have closed ours.
            connection_.reset();
            listener_.reset();
            rules_.reset();
          }),
      unpacks_(host, poller),
      volume_uses_(host),
      successor_(Successor::HandedOver()) {
  sandboxes_.SetSlots(&slots_);
}

Status Server::Start() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGHUP);
  sigaddset(&watched, SIGTERM);
  sigaddset(&watched, SIGINT);
  if (::sigprocmask(SIG_BLOCK, &watched, nullptr) != 0) return FailSys("sigprocmask");
  signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return FailSys("signalfd");
  ATOLL_TRY(poller_.Add(signals_.get(), [this] { OnSignal(); }));
  ATOLL_TRY(slots_.Start());
  ATOLL_TRY(sandboxes_.Adopt());
  // Whose processes Adopt has ended.
  ATOLL_TRY(slots_.RemoveStrays());
  ATOLL_ASSIGN(listener_, Bind(host_.config.run_dir + "/spawner.sock", host_.config.daemon_uid));
  ATOLL_TRY(poller_.Add(listener_.get(), [this] { OnAccept(); }));
  if (!host_.config.respawn || successor_) return {};
  ATOLL_ASSIGN(successor_, Successor::Start(host_.config, host_.host_mounts));
  return {};
}

Result<Server::End> Server::Run() {
  const int64_t ping_us = WatchdogMicros() / 2;  // 0: nobody waits for a sign of life
  const int idle = ping_us > 0 ? static_cast<int>(ping_us / 2000) : -1;
  int timeout = idle;
  int64_t next_ping_us = 0;
  int64_t next_look_us = 0;
  // The last answer is waited for.
  while (!end_ || (*end_ == End::kStopped && !outgoing_.empty())) {
    const int64_t began_us = SystemClock().BootMicros();
    if (ping_us > 0 && began_us >= next_ping_us) {
      NotifySystemd("WATCHDOG=1");
      next_ping_us = began_us + ping_us;
    }
    ATOLL_TRY(poller_.RunOnce(timeout));
    timeout = sandboxes_.Sweep() ? kSweepMillis : idle;
    if (!sandboxes_.HasAdopted()) continue;
    const int64_t now_us = SystemClock().BootMicros();
    if (now_us >= next_look_us) {
      sandboxes_.LookAtAdopted();
      next_look_us = now_us + kLookMillis * 1000;
    }
    if (timeout == idle) timeout = static_cast<int>((next_look_us - now_us) / 1000) + 1;
  }
  if (*end_ != End::kUpgrade) slots_.DropAll();
  // Or it would go on making the slot it is at, beside the next one's.
  slots_.StopBuilder();
  if (*end_ == End::kUpgrade) {
    if (successor_) ATOLL_TRY(successor_->HandOver());
    return *end_;
  }
  if (successor_) successor_->Dismiss();
  if (*end_ == End::kStopped) janitor_.Finish();
  return *end_;
}

void Server::OnAccept() {
  UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != 0 && peer.uid != host_.config.daemon_uid)) {
    LogLine(LogLevel::kWarning, "connection refused").Add("uid", peer.uid);
    return;
  }
  CloseConnection();
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer);
  connection_ = std::move(connection);
  ++connection_number_;
  const Status added = poller_.Add(connection_.get(), [this] { OnConnection(); });
  if (!added) connection_.reset();
}

void Server::CloseConnection() {
  if (!connection_) return;
  poller_.Remove(connection_.get());
  connection_.reset();
  outgoing_.clear();
  full_ = false;
  ++connection_number_;
  slots_.Abandon();
}

void Server::OnConnection() {
  SendWaiting();
  if (connection_ && outgoing_.size() < kMaxWaiting) OnMessage();
}

void Server::AwaitConnection() {
  poller_.Await(connection_.get(), outgoing_.size() < kMaxWaiting, !outgoing_.empty());
}

void Server::OnMessage() {
  // Looked at before the request is read: whoever asked has given it up, and may ask again.
  const bool given_up = HungUp(connection_.get());
  auto message = sys::ReceiveMessage(connection_.get(), wire::kMaxSpawnerMessage);
  if (!message) {
    if (message.error().error_number() == EAGAIN) return;
    LogLine(LogLevel::kWarning, "daemon connection closed").Add(message.error());
    return CloseConnection();
  }
  if (message->bytes.empty()) return CloseConnection();
  const auto request = wire::DecodeRequest(message->bytes);
  if (!request) {
    LogLine(LogLevel::kWarning, "daemon connection closed").Add(request.error());
    return CloseConnection();
  }
  if (given_up && request->type != wire::RequestType::kDestroy) return;
  Handle(*request, std::move(message->fds));
}

Status Server::KeepRules(std::vector<UniqueFd> fds) {
  // Of anything else the close might wait for somebody.
  int domain = 0, protocol = 0;
  socklen_t size = sizeof domain;
  if (fds.size() != 1 || ::getsockopt(fds[0].get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      ::getsockopt(fds[0].get(), SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
      domain != AF_NETLINK || protocol != NETLINK_NETFILTER) {
    return Fail(Code::kPermissionDenied, "rules: needs one NETLINK_NETFILTER socket");
  }
  rules_ = std::move(fds[0]);
  return {};
}

void Server::OnSignal() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) > 0) {
    if (info.ssi_signo == SIGHUP) BeginTrial();
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) end_ = End::kTerminated;
  }
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid <= 0) break;
    if (WIFSTOPPED(status)) {
      // A parked execd, a builder or a janitor that is stopped serves nobody either.
      if (!sandboxes_.OnChildStop(pid, status)) ::kill(pid, SIGKILL);
      continue;
    }
    if (sandboxes_.OnChildExit(pid, status) || unpacks_.OnChildExit(pid, status) ||
        slots_.OnChildExit(pid) || volume_uses_.OnChildExit(pid)) {
      continue;
    }
    if (pid == trial_.pid) OnTrial(status);
    if (successor_ && pid == successor_->pid()) {
      LogLine(LogLevel::kError, "successor died, starting another").Add("status", status);
      auto successor = Successor::Start(host_.config, host_.host_mounts);
      if (successor) successor_ = *successor;
    }
    if (pid == janitor_.pid()) {
      LogLine(LogLevel::kError, "janitor died, starting another").Add("status", status);
      auto janitor = Janitor::Start(host_.store.root());
      if (janitor) janitor_ = std::move(*janitor);
    }
  }
}

void Server::OnTrial(int status) {
  const Trial trial = std::exchange(trial_, {});
  const Status passed = JudgeTrial(host_.config, trial, status);
  if (passed) {
    end_ = end_.value_or(End::kUpgrade);
  } else {
    LogLine(LogLevel::kError, "no upgrade, this program goes on").Add(passed.error());
    NotifySystemd("STATUS=Serving; the last upgrade was refused: " + passed.error().message());
  }
}

void Server::BeginTrial() {
  if (trial_.pid > 0) return;
  auto trial = StartTrial(host_.config, host_.host_mounts);
  if (trial) {
    trial_ = std::move(*trial);
  } else {
    LogLine(LogLevel::kError, "no upgrade, this program goes on").Add(trial.error());
  }
}

void Server::Handle(const wire::Request& request, std::vector<UniqueFd> fds) {
  const uint64_t connection = connection_number_;
  const uint64_t number = request.number;
  const auto done = StatusSender(number);
  using wire::RequestType;
  if (ending_ && (request.type == RequestType::kPrepareSlot ||
                  request.type == RequestType::kBuild || request.type == RequestType::kUnpack)) {
    return done(Fail(Code::kUnavailable, "the spawner is stopping"));
  }
  switch (request.type) {
    case wire::RequestType::kHello:
      return SendHello(connection, number);
    case wire::RequestType::kPing:
      return done({});
    case wire::RequestType::kPrepareSlot:
      if (fds.size() != 2) {
        return done(Fail(Code::kInvalidArgument, "slot: needs two descriptors"));
      }
      return slots_.Prepare(request.slot, request.limits, std::move(fds[0]), std::move(fds[1]),
                            [this, connection, number](Result<Slots::Prepared> prepared) {
                              if (!prepared) {
                                return SendStatus(connection, number, Fail(prepared.error()));
                              }
                              wire::Reply reply;
                              reply.number = number;
                              reply.micros = prepared->micros;
                              Send(connection, reply, std::move(prepared->rtnetlink));
                            });
    case wire::RequestType::kDropSlot:
      return done(slots_.Drop(request.slot));
    case wire::RequestType::kBuild:
      return HandleBuild(request);
    case wire::RequestType::kFreeze:
      return sandboxes_.Freeze(request.id, request.flag, done);
    case wire::RequestType::kDestroy:
      return sandboxes_.Destroy(request.id, done);
    case wire::RequestType::kUnpack:
      return HandleUnpack(request, std::move(fds));
    case wire::RequestType::kPublishLayer:
      return done(host_.store.PublishLayer(request.layer));
    case wire::RequestType::kRemoveLayer: {
      if (sandboxes_.LayerInUse(request.layer)) {
        return done(Fail(Code::kFailedPrecondition,
                         "layer " + std::to_string(request.layer) + " is in use"));
      }
      Status removed = janitor_.Discard(host_.store.root(), Store::LayerPath(request.layer));
      if (removed) {
        removed = janitor_.Discard(host_.store.root(), Store::PartialLayerPath(request.layer));
      }
      return done(removed);
    }
    case wire::RequestType::kListLayers: {
      auto layers = host_.store.Layers();
      if (!layers) return done(Fail(std::move(layers).error()));
      wire::Reply reply;
      reply.number = number;
      reply.layers = std::move(*layers);
      return Send(connection, reply);
    }
    case wire::RequestType::kMakeVolume:
    case wire::RequestType::kRemoveVolume:
    case wire::RequestType::kVolumeUse:
    case wire::RequestType::kCheckVolume:
      return HandleVolume(request);
    case wire::RequestType::kKeepRules:
      return done(KeepRules(std::move(fds)));
    case wire::RequestType::kStop:
      ending_ = true;
      return sandboxes_.DestroyAll([this, done](const Status& status) {
        slots_.DropAll();
        auto strays = slots_.RemoveStrays();
        if (!strays) LogLine(LogLevel::kError, "cannot look for strays").Add(strays.error());
        done(status);
        end_ = End::kStopped;
      });
  }
}

void Server::HandleBuild(const wire::Request& request) {
  const uint64_t connection = connection_number_;
  const uint64_t number = request.number;
  const auto plan = wire::DecodePlan(request.plan);
  if (!plan) return SendStatus(connection, number, Fail(plan.error()));
  sandboxes_.Build(*plan, [this, connection, number](const Sandboxes::BuildOutcome& outcome) {
    wire::Reply reply;
    reply.number = number;
    reply.pid = outcome.pid;
    reply.micros = outcome.micros;
    if (!outcome.status) {
      reply.ok = false;
      reply.code = outcome.status.error().code();
      reply.error_number = outcome.status.error().error_number();
      reply.message = outcome.status.error().message();
      reply.step = outcome.step;
    }
    Send(connection, reply);
  });
}

void Server::HandleUnpack(const wire::Request& request, std::vector<UniqueFd> fds) {
  const uint64_t connection = connection_number_;
  const uint64_t number = request.number;
  const size_t expected = request.flag ? 1 : 2;
  if (fds.size() != expected) {
    return SendStatus(connection, number,
                      Fail(Code::kInvalidArgument, "unpack: wrong number of descriptors"));
  }
  UniqueFd output;
  if (request.flag) {
    auto layer = host_.store.CreatePartialLayer(request.layer);
    if (!layer) return SendStatus(connection, number, Fail(std::move(layer).error()));
    output = std::move(*layer);
  } else {
    output = std::move(fds[1]);
  }
  unpacks_.Start(request.flag ? "layer" : "split", std::move(fds[0]), std::move(output),
                 [this, connection, number, extract = request.flag,
                  layer = request.layer](Result<std::string> report) {
                   if (!report) {
                     if (extract) {
                       [[maybe_unused]] const Status gone =
                           janitor_.Discard(host_.store.root(), Store::PartialLayerPath(layer));
                     }
                     return SendStatus(connection, number, Fail(std::move(report).error()));
                   }
                   wire::Reply reply;
                   reply.number = number;
                   reply.text = std::move(*report);
                   Send(connection, reply);
                 });
}

void Server::SendHello(uint64_t connection, uint64_t number) {
  wire::Reply reply;
  reply.number = number;
  reply.protocol = wire::kSpawnerProtocol;
  reply.instance = host_.instance;
  reply.cgroup_v2 = host_.cgroups.host().v2;
  reply.limits_available = KeptLimits(host_);
  reply.cgroup_path = host_.cgroups.path();
  reply.prepared_slots = slots_.Stock();
  reply.frozen_slots = sandboxes_.FrozenSlots();
  auto strays = slots_.RemoveStrays();
  if (!strays) return SendStatus(connection, number, Fail(std::move(strays).error()));
  reply.stray_slots = std::move(*strays);
  for (wire::SandboxRecord& record : sandboxes_.List()) {
    if (reply.sandboxes.size() == wire::kSandboxesPerReply) {
      reply.more = true;
      Send(connection, std::exchange(reply, {}));
      reply.number = number;
    }
    reply.sandboxes.push_back(std::move(record));
  }
  Send(connection, reply);
}

void Server::Send(uint64_t connection, const wire::Reply& reply, UniqueFd fd) {
  if (!connection_ || connection != connection_number_) return;
  outgoing_.push_back({reply.Encode(), std::move(fd)});
  if (outgoing_.size() == 1) return SendWaiting();
  if (outgoing_.size() == kMaxWaiting) AwaitConnection();
}

void Server::SendWaiting() {
  if (outgoing_.empty()) return;
  while (!outgoing_.empty()) {
    const Outgoing& next = outgoing_.front();
    const int fd = next.fd.get();
    const Status sent = sys::SendMessage(connection_.get(), next.bytes, {&fd, fd >= 0 ? 1U : 0U});
    if (!sent && IsFull(sent.error())) break;
    if (!sent && sent.error().error_number() != EPIPE) {
      LogLine(LogLevel::kError, "cannot answer the daemon").Add(sent.error());
      return CloseConnection();
    }
    // EPIPE: nobody reads it; what was asked before is still to be read, and then the end.
    outgoing_.pop_front();
  }
  // Not each time: it is a call.
  const bool full = !outgoing_.empty();
  if (std::exchange(full_, full) || full) AwaitConnection();
}

void Server::SendStatus(uint64_t connection, uint64_t number, const Status& status) {
  wire::Reply reply;
  reply.number = number;
  if (!status) {
    reply.ok = false;
    reply.code = status.error().code();
    reply.error_number = status.error().error_number();
    reply.message = status.error().message();
  }
  Send(connection, reply);
}

std::function<void(Status)> Server::StatusSender(uint64_t number) {
  return [this, connection = connection_number_, number](const Status& status) {
    SendStatus(connection, number, status);
  };
}

}  // namespace atl::spawner
