// atoll-vm: the first process of a sandbox in a virtual machine. See README.md.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/acceptor.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/guard/first.h"
#include "runtime/guard/vm/tap.h"
#include "runtime/guard/vm/virtual_machine.h"
#include "runtime/wire/machine.h"
#include "runtime/wire/start.h"
#include "runtime/wire/tier.h"

namespace atl::guard {
namespace {

constexpr size_t kMaxMachine = 128 << 10;
constexpr size_t kMaxSyncs = 8;
// Limit from the start of the monitor until the guest is ready, and from the open gate until execd
// is there. On a busy machine emulation takes several times its usual three seconds.
constexpr int64_t kBootUs = 30 * 1000 * 1000;
constexpr int64_t kEmulatedBootUs = 120 * 1000 * 1000;

template <typename T>
Result<T> ReadFields(const char* path) {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kMaxMachine));
  T value;
  if (!wire::DecodeFields(text, &value)) {
    return Fail(Code::kInternal, std::string(path) + ": malformed");
  }
  return value;
}

class Guard {
 public:
  explicit Guard(EventLoop& loop) : loop_(loop) {}

  // Boots the machine that waits for a sandbox, if it is to. A failure is none of the sandbox,
  // whose machine then boots when the gate opens.
  void Park() {
    const auto hardware = ReadFields<wire::Hardware>(wire::kParkedFile);
    if (!hardware && hardware.error().error_number() == ENOENT) return;
    const Status booted = hardware ? Boot(*hardware) : Status(::atl::Fail(hardware.error()));
    if (!booted) GiveUp(booted.error().message());
  }

  // The gate is open.
  Status Claim() {
    ATOLL_ASSIGN(wire::Machine asked, ReadFields<wire::Machine>(wire::kMachineFile));
    claimed_ = true;
    if (!machine_ || failed_ || !machine_->whole() || machine_->hardware() != asked.hardware) {
      machine_.reset();
      ATOLL_TRY(Boot(asked.hardware));
    } else {
      SetLimit();
    }
    go_ = std::move(asked.go);
    ATOLL_ASSIGN(const bool linked, ReadLink(&go_));
    if (linked) ATOLL_TRY(JoinLink(go_.mtu));
    ::close(wire::kMachineTunFd);
    ATOLL_TRY(KeepCapabilities(0));
    if (machine_->ready()) Go();
    return {};
  }

 private:
  Status Boot(const wire::Hardware& hardware) {
    failed_ = false;
    machine_ = std::make_unique<VirtualMachine>(
        loop_, hardware,
        VirtualMachine::Events{
            .ready = [this] { claimed_ ? Go() : loop_.Cancel(std::exchange(limit_, 0)); },
            .execd_control = [this] { return Join(); },
            .synced = [this](const wire::vm::Synced& synced) { Synced(synced); },
            .ended = [](int code) { ::_exit(code); },
            .failed = [this](const std::string& why) { Fail(why); }});
    SetLimit();
    return machine_->Start(wire::kMachineTunFd);
  }

  void SetLimit() {
    loop_.Cancel(limit_);
    limit_ = loop_.After(machine_->hardware().kvm ? kBootUs : kEmulatedBootUs,
                         [this] { Fail("the virtual machine does not start in time"); });
  }

  void Go() {
    if (const Status said = machine_->Say(go_); !said) Fail(said.error().message());
  }

  // execd dials.
  Result<UniqueFd> Join() {
    if (!claimed_ || std::exchange(joined_, true)) {
      return ::atl::Fail(Code::kNotFound, "no execd is expected");
    }
    loop_.Cancel(std::exchange(limit_, 0));
    ::fcntl(wire::kExecdControlFd, F_SETFL, O_RDWR | O_NONBLOCK);
    // execd listens before it dials. Earlier connections wait in the listener's queue.
    loop_.Post([this] {
      if (const Status serves = Serve(); !serves) Fail(serves.error().message());
    });
    return UniqueFd(wire::kExecdControlFd);
  }

  Status Serve() {
    if (::fcntl(wire::kExecdListenFd, F_SETFL, O_RDWR | O_NONBLOCK) != 0) {
      return FailSys("fd 5, the listening socket");
    }
    ATOLL_ASSIGN(acceptor_, Acceptor::Start(loop_, wire::kExecdListenFd, {.name = "execd"},
                                            [this](Acceptor::Connection& connection) {
                                              machine_->Connect(std::move(connection.socket));
                                            }));
    ATOLL_ASSIGN(syncer_, Acceptor::Start(loop_, wire::kMachineSyncFd, {.name = "sync"},
                                          [this](Acceptor::Connection& connection) {
                                            AskForSync(std::move(connection.socket));
                                          }));
    return {};
  }

  // Whoever asks waits for all that is dirty now.
  void AskForSync(UniqueFd socket) {
    if (!machine_->Say(wire::vm::Sync{++syncs_})) return;
    waiting_[syncs_] = std::move(socket);
    // A guest may never answer.
    if (waiting_.size() > kMaxSyncs) waiting_.erase(waiting_.begin());
  }

  void Synced(const wire::vm::Synced& synced) {
    const auto waiting = waiting_.extract(synced.number);
    if (waiting.empty() || synced.errno_value != 0) return;
    (void)::send(waiting.mapped().get(), &wire::kSynced, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // Before the claim no sandbox has failed. Afterwards it ends: once execd has the control socket,
  // nobody else writes there.
  void Fail(const std::string& why) {
    if (!claimed_) return GiveUp(why);
    if (!joined_) {
      std::string message = why;
      if (const std::string said = machine_->LastWords(); !said.empty()) message += "\n" + said;
      TellFailure(wire::kMicrovmTier, Error(Code::kUnavailable, std::move(message)));
    }
    ::_exit(kCannotStart);
  }

  void GiveUp(const std::string& why) {
    LogLine(LogLevel::kWarning, "a machine that waited for a sandbox has failed").Add("why", why);
    loop_.Cancel(std::exchange(limit_, 0));
    failed_ = true;
    // The machine itself may be the caller.
    loop_.Post([this] {
      if (failed_) machine_.reset();
    });
  }

  EventLoop& loop_;
  std::unique_ptr<VirtualMachine> machine_;
  wire::vm::Go go_;
  std::unique_ptr<Acceptor> acceptor_;  // accepts connections to execd
  std::unique_ptr<Acceptor> syncer_;
  std::map<uint64_t, UniqueFd> waiting_;  // the key is the number of the sync
  uint64_t syncs_ = 0;
  EventLoop::Id limit_ = 0;
  bool failed_ = false;  // the machine is of no use, and goes
  bool claimed_ = false;
  bool joined_ = false;
};

int Run() {
  const auto loop = EventLoop::Create();
  if (!loop) return kCannotStart;
  for (const int fd : {wire::kExecdGateFd, wire::kExecdControlFd, wire::kExecdListenFd,
                       wire::kMachineTunFd, wire::kMachineSyncFd}) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  Guard guard(**loop);
  if (!TakePass() || !MakeTap(wire::kMachineTunFd)) return kCannotStart;
  guard.Park();
  EventLoop::Id gate = 0;
  const auto watched = (*loop)->Watch(wire::kExecdGateFd, EPOLLIN, [&](uint32_t) {
    (*loop)->Unwatch(gate);
    if (!PassGate()) ::_exit(0);
    ::close(wire::kExecdGateFd);
    if (const Status claimed = guard.Claim(); !claimed) {
      TellFailure(wire::kMicrovmTier, claimed.error());
      ::_exit(kCannotStart);
    }
  });
  if (!watched) return kCannotStart;
  gate = *watched;
  (*loop)->Run();
  return 0;
}

}  // namespace
}  // namespace atl::guard

int main(int argc, char**) {
  atl::OpenStandardStreams();
  atl::InitLog("vm", atl::LogLevel::kInfo);
  // No flag exists; the spawner's trial of a new release gives one.
  if (argc != 1) return 2;
  return atl::guard::Run();
}
