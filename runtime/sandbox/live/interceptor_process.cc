#include "runtime/sandbox/live/interceptor_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "netpolicy/intercept/line.h"
#include "netpolicy/vault/match.h"
#include "netpolicy/vault/wire_json.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/wire/request.h"

namespace atl::sandbox {
namespace {

// Minimum time between two starts, so that a process that ends at once is not restarted by every
// connection.
constexpr int64_t kRestartUs = 1'000'000;
// A process is ready within milliseconds. But one of a sandbox that is paused meanwhile waits for
// the resume, and one of a sandbox that uses its whole processor time waits for its share.
constexpr int64_t kReadyUs = 30'000'000;

template <typename T>
Status Send(int line, T message) {
  const intercept::Message packed{std::move(message)};
  const wire::Packet packet = wire::EncodePacket(packed);
  return sys::SendMessage(line, packet.bytes, packet.descriptors);
}

}  // namespace

void InterceptorProcess::Follow(uint32_t slot) {
  if (std::exchange(slot_, slot) == slot || !line_) return;
  Stop();
  started_us_ = 0;
  // Otherwise the next connection starts it.
  if (waiting_.empty()) return;
  if (Status started = Start(); !started) Answered(started);
}

void InterceptorProcess::SetVault(vault::Vault vault, Done done) {
  Status told = line_ ? Tell(vault) : Status();
  if (!told) Stop();
  vault::Vault former = std::exchange(vault_, std::move(vault));
  if (line_ && ready_) return done({});
  if (Status started = line_ ? Status() : Start(); !started) {
    vault_ = std::move(former);
    Answered(started);
    return done(started);
  }
  waiting_.push_back({std::move(former), std::move(done)});
}

Status InterceptorProcess::Start() {
  ATOLL_ASSIGN(sys::SocketPair line, sys::UnixPair(SOCK_SEQPACKET));
  if (::fcntl(line.a.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  intercept::Begin begin{authority_, {}};
  ATOLL_ASSIGN(begin.authorities, sys::Open(authorities_, O_RDONLY));
  line_ = std::move(line.a);
  started_us_ = MonotonicMicros();
  ready_ = false;
  watch_ = loop_.WatchReadable(line_.get(), [this] { OnAnswer(); });
  // The line keeps these messages, and connections, until the process reads them.
  Status begun = watch_ != 0 ? Send(line_.get(), std::move(begin))
                             : Fail(Code::kInternal, "the interceptor cannot be watched");
  if (begun) begun = Tell(vault_);
  if (!begun) {
    Stop();
    return begun;
  }
  deadline_ = loop_.After(kReadyUs, [this] { Failed("it was not ready within 30 seconds"); });
  spawner_.Ask(wire::StartInterceptor{.slot = slot_, .line = std::move(line.b)},
               guard_([this, start = ++starts_](Result<wire::Interceptor> started) {
                 OnStarted(start, std::move(started));
               }));
  return {};
}

void InterceptorProcess::OnStarted(uint64_t start, Result<wire::Interceptor> started) {
  if (start != starts_ || !line_) {
    // It was stopped meanwhile, and must not outlive the vault that it has got.
    if (started) (void)sys::PidfdSignal(started->process.get(), SIGKILL);
    return;
  }
  if (!started) {
    // The spawner is back in a moment, so its caller may come again.
    const bool away = started.error().code() == Code::kUnavailable;
    return Failed(started.error().message(), away ? Code::kUnavailable : Code::kFailedPrecondition);
  }
  process_ = std::move(started->process);
  // It has ended before the spawner's answer.
  if (watch_ == 0) Failed("it has ended");
}

Status InterceptorProcess::Tell(const vault::Vault& vault) {
  intercept::SetVault set;
  ATOLL_ASSIGN(set.vault, sys::SealedMemfd("vault", vault::Encode(vault), false));
  return Send(line_.get(), std::move(set));
}

void InterceptorProcess::Empty() {
  vault_ = {};
  if (line_ && !Tell(vault_)) Stop();
}

void InterceptorProcess::Stop() {
  loop_.Cancel(std::exchange(deadline_, 0));
  if (watch_ != 0) loop_.Unwatch(std::exchange(watch_, 0));
  // SIGKILL also ends a process that hangs.
  if (process_) (void)sys::PidfdSignal(process_.get(), SIGKILL);
  process_.reset();
  line_.reset();
  ready_ = false;
}

void InterceptorProcess::OnAnswer() {
  auto answer = sys::ReceiveMessage(line_.get(), intercept::kMaxMessage);
  if (!answer && answer.error().error_number() == EAGAIN) return;
  if (answer && answer->bytes == intercept::kReady && !ready_) {
    ready_ = true;
    loop_.Cancel(std::exchange(deadline_, 0));
    return Answered({});
  }
  if (answer && !answer->bytes.empty()) return Failed(answer->bytes);
  if (process_) return Failed("it has ended");
  // The spawner has closed its end, and its answer says why.
  loop_.Unwatch(std::exchange(watch_, 0));
}

void InterceptorProcess::Failed(const std::string& why, Code code) {
  LogLine(LogLevel::kError, "the interceptor of a sandbox")
      .Add("sandbox", sandbox_id_)
      .Add("error", why);
  Stop();
  Answered(Fail(code, "atoll-intercept: " + why));
}

void InterceptorProcess::Answered(const Status& status) {
  auto waiting = std::exchange(waiting_, {});
  // The oldest change has the vault that was in force before all of them.
  if (!status && !waiting.empty()) vault_ = std::move(waiting.front().former);
  for (const Change& change : waiting) change.done(status);
}

bool InterceptorProcess::Wants(std::string_view name, bool tls, uint16_t port) {
  const vault::Scheme scheme = tls ? vault::Scheme::kHttps : vault::Scheme::kHttp;
  return port == vault::PortOf(scheme) && vault::Covers(vault_, scheme, name);
}

Result<UniqueFd> InterceptorProcess::Take(netpolicy::InterceptedConnection connection) {
  if (!line_) {
    if (MonotonicMicros() - started_us_ < kRestartUs) {
      return Fail(Code::kUnavailable, "the interceptor has just ended");
    }
    ATOLL_TRY(Start());
  }
  ATOLL_ASSIGN(sys::SocketPair lease, sys::UnixPair(SOCK_STREAM));
  intercept::Serve serve;
  serve.name = std::move(connection.name);
  serve.tls = connection.tls;
  serve.client = std::move(connection.client);
  serve.server = std::move(connection.server);
  serve.lease = std::move(lease.b);
  // A full socket means that the process has not read hundreds of connections; the daemon refuses
  // this one.
  ATOLL_TRY(Send(line_.get(), std::move(serve)));
  return std::move(lease.a);
}

}  // namespace atl::sandbox
