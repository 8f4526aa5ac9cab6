#include "execd/prepare.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "execd/run/loopback.h"
#include "runtime/wire/output.h"

namespace atl::execd {
namespace {

// First pause between probes. It is short, because the daemon builds templates in advance and
// others are queued.
constexpr int64_t kFirstPauseUs = 20'000;
constexpr int64_t kLongestPauseUs = 1'000'000;
// The port of the exec API. Upstream's clients probe it. It always answers, because this code runs
// in its server.
constexpr uint32_t kExecApiPort = 44772;

}  // namespace

void Preparing::Serve(Core* core, CodeRoutes* code, const std::shared_ptr<Exchange>& exchange) {
  if (!exchange->head().Find(wire::kInternalHeader)) {
    return exchange->RespondText(404, "404 page not found");
  }
  exchange->ReadBody(wire::kMaxPreparation, [core, code, x = exchange.get()](std::string body) {
    wire::Preparation wanted;
    if (!wire::DecodeFields(body, &wanted)) {
      return x->RespondText(500, "a preparation that is malformed");
    }
    const auto preparing = std::make_shared<Preparing>(core, code, x, std::move(wanted));
    // The callback keeps the object alive: callbacks are dropped with the answer.
    x->OnClosed([preparing] { preparing->End(); });
    preparing->Begin();
  });
}

void Preparing::Begin() {
  deadline_ = core_.loop.After(int64_t{wanted_.timeout_seconds} * 1'000'000, [this] {
    deadline_ = 0;
    Answer("not done after " + std::to_string(wanted_.timeout_seconds) + " s" +
           (failed_.empty() ? "" : "; the last try: " + failed_));
  });
  Probe();
}

void Preparing::Probe() {
  doing_ = "readiness probe";
  if (wanted_.probe_port != 0) return TryPort();
  if (wanted_.probe_command.empty()) return Await();
  const std::string shell = core_.Shell();
  if (shell.empty()) return Answer("the image has no shell to run the probe's command");
  Run({shell, "-c", wanted_.probe_command}, &Preparing::Tried);
}

void Preparing::TryPort() {
  if (wanted_.probe_port == kExecApiPort) return Await();
  auto socket = OpenTcpSocket();
  if (!socket) return Answer(socket.error().message());
  const sockaddr_in address = LoopbackAddress(static_cast<uint16_t>(wanted_.probe_port));
  const auto refused = [this](int number) {
    Tried(SysError("connect to 127.0.0.1:" + std::to_string(wanted_.probe_port), number).message());
  };
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return Await();
  }
  if (errno != EINPROGRESS) return refused(errno);
  socket_ = std::move(*socket);
  auto watched = core_.loop.Watch(socket_.get(), EPOLLOUT, [this, refused](uint32_t) {
    int number = 0;
    socklen_t size = sizeof number;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &number, &size);
    core_.loop.Unwatch(std::exchange(watch_, 0));
    socket_.reset();
    if (number != 0) return refused(number);
    Await();
  });
  if (!watched) return Answer(watched.error().message());
  watch_ = *watched;
}

void Preparing::Tried(const std::string& failure) {
  if (failure.empty()) return Await();
  failed_ = failure;
  pause_us_ = std::clamp(pause_us_ * 2, kFirstPauseUs, kLongestPauseUs);
  timer_ = core_.loop.After(pause_us_, [this] { Probe(); });
}

void Preparing::Await() {
  failed_.clear();
  doing_ = "warm-up";
  if (wanted_.wait_seconds == 0) return WarmUp();
  timer_ = core_.loop.After(int64_t{wanted_.wait_seconds} * 1'000'000, [this] { WarmUp(); });
}

void Preparing::WarmUp() {
  if (wanted_.command.empty()) return StartKernel();
  Run(wanted_.command, &Preparing::WarmedUp);
}

void Preparing::WarmedUp(const std::string& failure) {
  if (!failure.empty()) return Answer(failure);
  StartKernel();
}

void Preparing::StartKernel() {
  if (wanted_.kernel.empty()) return Answer("");
  doing_ = "kernel of " + wanted_.kernel;
  code_.WarmUp(wanted_.kernel, [weak = weak_from_this()](const Status& status) {
    if (const auto self = weak.lock()) self->Answer(status ? "" : status.error().message());
  });
}

void Preparing::Run(std::vector<std::string> argv, Then then) {
  const auto directory = OpenDirectory(core_.cwd, core_.user);
  if (!directory) return Answer(directory.error().message());
  const Environment env = core_.CommandEnvironment();
  SpawnSpec spec;
  spec.argv = std::move(argv);
  spec.programs = PathCandidates(spec.argv[0], env);
  spec.env = env.entries();
  spec.identity = &core_.user;
  spec.cwd = directory->get();
  const Status started =
      run_.Start(std::move(spec), 0, [weak = weak_from_this(), then](const Status& status) {
        if (const auto self = weak.lock()) ((*self).*then)(status ? "" : status.error().message());
      });
  if (!started) Answer(started.error().message());
}

void Preparing::Answer(const std::string& failure) {
  if (ended_) return;
  const auto keep = shared_from_this();
  End();
  if (failure.empty()) return exchange_->RespondEmpty();
  exchange_->RespondText(500, doing_ + ": " + failure);
}

void Preparing::End() {
  if (std::exchange(ended_, true)) return;
  core_.loop.Cancel(deadline_);
  core_.loop.Cancel(timer_);
  if (watch_ != 0) core_.loop.Unwatch(watch_);
  run_.End();
}

}  // namespace atl::execd
