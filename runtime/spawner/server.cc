#include "runtime/spawner/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/notify.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"

namespace atl::spawner {
namespace {

constexpr int kSendBuffer = 1 << 20;
// While more replies than these wait for the daemon, the spawner reads no further request. Only
// answers to earlier requests, and one exit for each sandbox, come on top.
constexpr size_t kMaxWaiting = 256;
constexpr int kExitsAtOnce = 8;  // handled in one turn
constexpr int64_t kReplaceAgainUs = 1'000'000;

Result<UniqueFd> Bind(const std::string& path, uid_t owner) {
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return FailSys("socket");
  ::unlink(path.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
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

}  // namespace

Server::Server(Host& host, EventLoop& loop, Janitor janitor, UniqueFd records, UniqueFd ends)
    : host_(host),
      loop_(loop),
      janitor_(std::move(janitor)),
      tiers_(host),
      sandboxes_(host, tiers_, loop, std::move(records), std::move(ends),
                 [this](const wire::SandboxRecord& record) {
                   Send(connection_number_, {0, wire::Exited{record}});
                 }),
      slots_(host, tiers_, loop, janitor_, [this] { return sandboxes_.SlotsInUse(); }),
      objects_(host, loop, [this](uint32_t slot, uint32_t index) { OnObjectsLost(slot, index); }),
      volume_work_(host, loop),
      unpacks_(host, loop),
      copies_(host, loop, sandboxes_, janitor_),
      sessions_(host, loop, sandboxes_, janitor_),
      paused_memory_(host, loop, sandboxes_),
      disk_uses_(host),
      successor_(Successor::HandedOver()) {
  sandboxes_.SetSlots(&slots_);
  sandboxes_.SetObjects(&objects_);
  sandboxes_.SetVolumeWork(&volume_work_);
  slots_.OnDismantle([this](uint32_t slot) { objects_.Release(slot); });
  sandboxes_.SetInUse(
      [this](uint32_t slot) { return sessions_.Building(slot) || paused_memory_.Busy(slot); });
  sandboxes_.SetGivingBirth([this](uint32_t slot) { return sessions_.Building(slot); });
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
  ATOLL_TRY(loop_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignal(); }));
  ATOLL_TRY(slots_.Start());
  ATOLL_TRY(sandboxes_.Adopt());
  paused_memory_.Start();
  // Removes the groups whose processes Adopt has ended.
  ATOLL_TRY(slots_.RemoveStrays());
  ATOLL_ASSIGN(listener_, Bind(host_.config.run_dir + "/spawner.sock", host_.config.daemon_uid));
  ATOLL_ASSIGN(acceptor_, Acceptor::Start(loop_, listener_.get(), {.name = "spawner"},
                                          [this](Acceptor::Connection& connection) {
                                            OnAccept(std::move(connection.socket));
                                          }));
  if (!host_.config.respawn || successor_) return {};
  ATOLL_ASSIGN(successor_, Successor::Start(host_.config, host_.host_mounts));
  return {};
}

void Server::GiveSignOfLife() {
  const int64_t watchdog_us = WatchdogMicros();
  if (watchdog_us == 0) return;  // systemd expects nothing
  NotifySystemd("WATCHDOG=1");
  loop_.After(watchdog_us / 2, [this] { GiveSignOfLife(); });
}

Result<Server::End> Server::Run() {
  GiveSignOfLife();
  // Waits until the last answer is sent.
  while (!end_ || (*end_ == End::kStopped && !outgoing_.empty())) loop_.Turn(-1);
  if (*end_ != End::kUpgrade) {
    // A daemon that connects from here on must find no spawner.
    listener_.reset();
    CloseConnection();
    slots_.DropAll();
  }
  // Otherwise these processes would go on beside those of the next spawner.
  sessions_.Abandon();
  slots_.StopBuilder();
  copies_.Abandon();
  volume_work_.Abandon();
  unpacks_.Abandon();
  paused_memory_.Abandon();
  if (*end_ == End::kUpgrade) {
    janitor_.Abandon();
    if (successor_) ATOLL_TRY(successor_->HandOver());
    return *end_;
  }
  if (successor_) successor_->Dismiss();
  if (*end_ == End::kStopped) janitor_.Finish();
  return *end_;
}

void Server::OnAccept(UniqueFd connection) {
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
  auto watch = loop_.Watch(connection_.get(), EPOLLIN, [this](uint32_t) { OnConnection(); });
  if (!watch) return connection_.reset();
  connection_watch_ = *watch;
}

void Server::CloseConnection() {
  if (!connection_) return;
  loop_.Unwatch(connection_watch_);
  connection_.reset();
  outgoing_.clear();
  ++connection_number_;
  slots_.Abandon();
  copies_.Abandon();
  objects_.Abandon();
}

void Server::OnObjectsLost(uint32_t slot, uint32_t index) {
  const std::string id = sandboxes_.LiveIn(slot);
  if (!id.empty()) Send(connection_number_, {0, wire::VolumeLost{id, index}});
}

void Server::OnConnection() {
  SendWaiting();
  if (connection_ && outgoing_.size() < kMaxWaiting) OnMessage();
}

void Server::AwaitConnection() {
  loop_.Modify(connection_watch_, (outgoing_.size() < kMaxWaiting ? EPOLLIN : 0U) |
                                      (outgoing_.empty() ? 0U : EPOLLOUT));
}

void Server::OnMessage() {
  // Look before the request is read: the daemon may have given it up, and may ask again.
  const bool given_up = HungUp(connection_.get());
  auto message = sys::ReceiveMessage(connection_.get(), wire::kMaxSpawnerMessage);
  if (!message) {
    if (message.error().error_number() == EAGAIN) return;
    LogLine(LogLevel::kWarning, "daemon connection closed").Add(message.error());
    return CloseConnection();
  }
  if (message->bytes.empty()) return CloseConnection();
  auto request = wire::DecodeRequest(message->bytes, message->fds);
  if (!request) {
    LogLine(LogLevel::kWarning, "daemon connection closed").Add(request.error());
    return CloseConnection();
  }
  if (given_up && !std::holds_alternative<wire::Destroy>(request->message)) return;
  Handle(std::move(*request));
}

void Server::OnSignal() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) > 0) {
    if (info.ssi_signo == SIGHUP) BeginTrial();
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) end_ = End::kTerminated;
  }
  for (int taken = 0;; ++taken) {
    // When a thousand end together, the rest waits behind the daemon's requests, pings included.
    if (taken == kExitsAtOnce) {
      ::kill(::getpid(), SIGCHLD);
      break;
    }
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid <= 0) break;
    if (WIFSTOPPED(status)) {
      // A stopped parked execd, builder or janitor serves nobody either.
      if (!sandboxes_.OnChildStop(pid, status)) ::kill(pid, SIGKILL);
      continue;
    }
    if (sandboxes_.OnChildExit(pid, status) || unpacks_.OnChildExit(pid, status) ||
        copies_.OnChildExit(pid, status) || volume_work_.OnChildExit(pid) ||
        slots_.OnChildExit(pid) || disk_uses_.OnChildExit(pid) || paused_memory_.OnChildExit(pid)) {
      continue;
    }
    if (pid == trial_.pid) OnTrial(status);
    if (successor_ && pid == successor_->pid()) {
      LogLine(LogLevel::kError, "successor died, starting another").Add("status", status);
      successor_.reset();
      ReplaceSuccessor();
    }
    if (pid == janitor_.pid()) {
      LogLine(LogLevel::kError, "janitor died, starting another").Add("status", status);
      janitor_.OnExit();
      ReplaceJanitor();
    }
  }
}

// A host that is out of processes or memory has some again later.
void Server::ReplaceSuccessor() {
  auto successor = Successor::Start(host_.config, host_.host_mounts);
  if (successor) {
    successor_ = *successor;
    return;
  }
  LogLine(LogLevel::kError, "cannot start a successor, trying again").Add(successor.error());
  loop_.After(kReplaceAgainUs, [this] { ReplaceSuccessor(); });
}

void Server::ReplaceJanitor() {
  auto janitor = Janitor::Start(host_.store.root());
  if (janitor) {
    janitor_ = std::move(*janitor);
    return;
  }
  LogLine(LogLevel::kError, "cannot start a janitor, trying again").Add(janitor.error());
  loop_.After(kReplaceAgainUs, [this] { ReplaceJanitor(); });
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

void Server::Send(uint64_t connection, wire::Reply reply) {
  if (!connection_ || connection != connection_number_) return;
  outgoing_.push_back(std::move(reply));
  if (outgoing_.size() == 1) return SendWaiting();
  if (outgoing_.size() == kMaxWaiting) AwaitConnection();
}

void Server::SendWaiting() {
  if (outgoing_.empty()) return;
  while (!outgoing_.empty()) {
    const wire::Packet next = wire::EncodePacket(outgoing_.front());
    const Status sent = sys::SendMessage(connection_.get(), next.bytes, next.descriptors);
    if (!sent && sys::HasNoRoom(sent.error())) break;
    if (!sent && sent.error().error_number() != EPIPE) {
      LogLine(LogLevel::kError, "cannot answer the daemon").Add(sent.error());
      return CloseConnection();
    }
    // EPIPE: the daemon has hung up. Its earlier requests are still to be read, and then the end.
    outgoing_.pop_front();
  }
  AwaitConnection();
}

}  // namespace atl::spawner
