#include "runtime/spawner/server.h"

#include <fcntl.h>
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

namespace atl::spawner {
namespace {

constexpr int kSweepMillis = 5;
// A stopped process 1 is to be noticed within a second.
constexpr int kLookMillis = 800;
constexpr int kSendBuffer = 1 << 20;

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
          host, poller, janitor_, [this](uint32_t slot) { return sandboxes_.SlotInUse(slot); },
          [this] {
            // A copy of either would keep the daemon from seeing that we have closed ours.
            connection_.reset();
            listener_.reset();
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
  while (!end_) {
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
  const Status added = poller_.Add(connection_.get(), [this] { OnMessage(); });
  if (!added) connection_.reset();
}

void Server::CloseConnection() {
  if (!connection_) return;
  poller_.Remove(connection_.get());
  connection_.reset();
  ++connection_number_;
  slots_.DropAll();
}

void Server::OnMessage() {
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
  Handle(*request, std::move(message->fds));
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
    case wire::RequestType::kHello: {
      wire::Reply reply = Hello();
      reply.number = number;
      return Send(connection, reply);
    }
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
                              Send(connection, reply, prepared->rtnetlink.get());
                            });
    case wire::RequestType::kDropSlot:
      return done(slots_.Drop(request.slot));
    case wire::RequestType::kBuild:
      return HandleBuild(request);
    case wire::RequestType::kLimits:
      return done(sandboxes_.SetLimits(request.id, request.limits));
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
    case wire::RequestType::kStop:
      ending_ = true;
      return sandboxes_.DestroyAll([this, done](const Status& status) {
        slots_.DropAll();
        slots_.DropStrays();
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

wire::Reply Server::Hello() const {
  wire::Reply reply;
  reply.protocol = wire::kSpawnerProtocol;
  reply.instance = host_.instance;
  reply.cgroup_v2 = host_.cgroups.host().v2;
  reply.limits_available = host_.cgroups.host().limits;
  if (host_.store.HasQuota()) reply.limits_available.emplace_back("disk");
  reply.sandboxes = sandboxes_.List();
  reply.cgroup_path = host_.cgroups.path();
  return reply;
}

void Server::Send(uint64_t connection, const wire::Reply& reply, int fd) {
  if (!connection_ || connection != connection_number_) return;
  const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
  const Status sent = sys::SendMessage(connection_.get(), reply.Encode(), fds);
  if (sent) return;
  // A daemon that does not read (a megabyte is waiting) is a dead daemon: it will come back and
  // ask.
  LogLine(LogLevel::kError, "cannot answer the daemon").Add(sent.error());
  CloseConnection();
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
