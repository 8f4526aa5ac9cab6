#include "execd/code/kernel.h"

#include <signal.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

// Enough for a JVM on a busy host; a kernel that takes longer counts as hung.
constexpr int64_t kStartUs = 60'000'000;
// Interval of probes. A kernel that is starting may lose a request; jupyter_client repeats it, too.
constexpr int64_t kProbeAgainUs = 500'000;
// Interval of probes after an answer, until the subscription is known to have arrived. It travels
// over another socket.
constexpr int64_t kListenAgainUs = 10'000;
// When a connection is lost, the time to wait for the exit of the process, which gives a better
// reason.
constexpr int64_t kExitUs = 2'000'000;
// Enough for a few system calls of an idle kernel.
constexpr int64_t kSettleUs = 5'000'000;
constexpr size_t kTail = 2 << 10;
constexpr const char* kParentVariable = "JPY_PARENT_PID";

void Replace(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

}  // namespace

Kernel::Kernel(Core* core, Zygote* zygote, KernelHome home, std::optional<KernelPorts> ports,
               std::string key, Callbacks callbacks)
    : core_(*core),
      zygote_(*zygote),
      home_(std::move(home)),
      ports_(std::move(ports)),
      codec_(std::move(key), NewUuid(false)),
      callbacks_(std::move(callbacks)) {}

Result<std::unique_ptr<Kernel>> Kernel::Start(Core* core, Zygote* zygote, const Kernelspec& spec,
                                              const std::string& cwd, Callbacks callbacks) {
  ATOLL_ASSIGN(KernelHome home, KernelHome::Make(core->user));
  std::optional<KernelPorts> ports;
  if (!spec.knows_ipc) {
    ATOLL_ASSIGN(ports, KernelPorts::Reserve());
  }
  const std::string key = HexEncode(sys::RandomBytes(32));
  std::unique_ptr<Kernel> kernel(
      new Kernel(core, zygote, std::move(home), std::move(ports), key, std::move(callbacks)));
  // ipykernel, which runs other languages as well, forwards the output of its children itself, and
  // also copies it to the original streams. If a wrapper starts it, only the language tells.
  const std::string_view program = spec.argv[0];
  kernel->tells_written_ = program.substr(program.rfind('/') + 1).starts_with("python") ||
                           http::EqualNoCase(spec.language, "python");
  ATOLL_TRY(kernel->WriteConnectionFile(key));
  if (!kernel->Fork(spec, cwd)) ATOLL_TRY(kernel->Spawn(spec, cwd));
  return kernel;
}

Kernel::~Kernel() {
  zygote_.Forget(birth_);
  core_.loop.Cancel(deadline_);
  core_.loop.Cancel(probe_again_);
  for (auto* pipe : {&output_, &errors_}) {
    if (*pipe) OutputPipe::Abandon(std::move(*pipe));
  }
}

int Kernel::NumberOf(KernelPorts::Port port) const {
  return ports_ ? (*ports_)[port] : port + 1;
}

Status Kernel::WriteConnectionFile(const std::string& key) {
  std::string text = ports_ ? R"({"transport":"tcp","ip":)" : R"({"transport":"ipc","ip":)";
  AppendJsonString(&text, ports_ ? "127.0.0.1" : home_.socket_base());
  text.append(R"(,"signature_scheme":"hmac-sha256")");
  const auto add = [this, &text](const char* name, KernelPorts::Port port) {
    text.append(",\"").append(name).append("\":");
    AppendJsonInteger(&text, NumberOf(port));
  };
  add("shell_port", KernelPorts::kShell);
  add("iopub_port", KernelPorts::kIopub);
  add("stdin_port", KernelPorts::kStdin);
  add("control_port", KernelPorts::kControl);
  add("hb_port", KernelPorts::kHeartbeat);
  text.append(",\"key\":");
  AppendJsonString(&text, key);
  text.append("}\n");
  return home_.Write(text);
}

Environment Kernel::EnvironmentFor(const Core& core, const Kernelspec& spec) {
  Environment env = core.CommandEnvironment(spec.env, core.user);
  // A kernel with a parent process in this variable exits at once, because its parent is process 1.
  if (env.Get(kParentVariable)) env.Set(kParentVariable, "");
  return env;
}

Result<Kernel::Place> Kernel::MakePlace(const Kernelspec& spec, const std::string& cwd) {
  Place place;
  place.env = EnvironmentFor(core_, spec);
  ATOLL_ASSIGN(place.null, OpenNull());
  ATOLL_ASSIGN(place.directory, OpenDirectory(cwd, core_.user));
  ATOLL_ASSIGN(output_,
               OutputPipe::Open(&core_.loop, &place.output,
                                [this](std::string_view bytes) { Written(false, bytes); }));
  ATOLL_ASSIGN(errors_, OutputPipe::Open(&core_.loop, &place.errors,
                                         [this](std::string_view bytes) { Written(true, bytes); }));
  return place;
}

// If the zygote cannot fork the kernel, the kernel starts without it.
Status Kernel::Fork(const Kernelspec& spec, const std::string& cwd) {
  by_message_ = spec.interrupt_by_message;
  ATOLL_ASSIGN(const Place place, MakePlace(spec, cwd));
  const int streams[] = {place.output.get()};
  GivePipes(streams, core_.user);
  Zygote::Order order;
  order.connection_file = home_.connection_file();
  order.null = place.null.get();
  order.output = place.output.get();
  order.cwd = place.directory.get();
  order.on_exit = [this](const JobExit& exit) { Ended(exit); };
  ATOLL_ASSIGN(birth_, zygote_.Fork(spec, place.env, std::move(order),
                                    [this, spec, cwd](Result<std::unique_ptr<Job>> born) {
                                      birth_ = 0;
                                      if (born) return Runs(*std::move(born));
                                      const Status spawned = Spawn(spec, cwd);
                                      if (!spawned) callbacks_.on_end(spawned.error().message());
                                    }));
  return {};
}

Status Kernel::Spawn(const Kernelspec& spec, const std::string& cwd) {
  ATOLL_ASSIGN(const Place place, MakePlace(spec, cwd));
  SpawnSpec process;
  UniqueFd launcher;
  process.argv = spec.argv;
  if (Zygote::Makes(spec)) {
    ATOLL_ASSIGN(launcher, Zygote::Launcher(spec, home_.connection_file(), &process.argv));
  }
  for (std::string& word : process.argv) {
    Replace(&word, "{connection_file}", home_.connection_file());
    Replace(&word, "{resource_dir}", spec.directory);
  }
  process.programs = PathCandidates(process.argv[0], place.env);
  process.env = place.env.entries();
  process.identity = &core_.user;
  process.cwd = place.directory.get();
  process.stdio[0] = launcher ? launcher.get() : place.null.get();
  process.stdio[1] = place.output.get();
  process.stdio[2] = place.errors.get();
  ATOLL_ASSIGN(auto job, Job::Start(&core_, std::move(process), 0,
                                    [this](const JobExit& exit) { Ended(exit); }));
  Runs(std::move(job));
  return {};
}

void Kernel::Runs(std::unique_ptr<Job> job) {
  job_ = std::move(job);
  job_->EndWhole();
  KillAfter(kStartUs, "the kernel did not answer within 60 s of its start");
  OpenChannels();
}

std::unique_ptr<Channel> Kernel::Open(KernelPorts::Port port, std::string_view type,
                                      std::string_view peer_type,
                                      void (Kernel::*on_message)(ZmtpMessage)) {
  Channel::Callbacks callbacks;
  callbacks.on_ready = [this] {
    if (shell_->ready() && iopub_->ready() && (!control_ || control_->ready())) Probe();
  };
  callbacks.on_message = [this, on_message](ZmtpMessage message) {
    (this->*on_message)(std::move(message));
  };
  callbacks.on_broken = [this](const Error& error) { KillAfter(kExitUs, error.message()); };
  Channel::Connector connect = [this, number = NumberOf(port)] {
    return ports_ ? ConnectLoopback(static_cast<uint16_t>(number)) : home_.Connect(number);
  };
  return std::make_unique<Channel>(&core_.loop, std::move(connect), type, peer_type,
                                   std::move(callbacks));
}

// Without stdin: runs are told that no input is available. Without heartbeat: a single-threaded
// kernel answers neither it nor a request while it works, so it does not detect a hung kernel.
void Kernel::OpenChannels() {
  shell_ = Open(KernelPorts::kShell, "DEALER", "ROUTER", &Kernel::OnShell);
  iopub_ = Open(KernelPorts::kIopub, "SUB", "PUB", &Kernel::OnIopub);
  if (by_message_) control_ = Open(KernelPorts::kControl, "DEALER", "ROUTER", &Kernel::OnControl);
  std::string subscription;
  AppendZmtpMessage(&subscription, {"\x01"});
  iopub_->Send(subscription);
}

std::string Kernel::Request(Channel* channel, std::string_view type, std::string_view content) {
  std::string id = NewUuid(true), message;
  codec_.AppendRequest(&message, type, id, content, UnixMillis());
  channel->Send(message);
  return id;
}

void Kernel::Probe() {
  if (ready_) return;
  if (ports_) ports_->Release();
  Request(shell_.get(), "kernel_info_request", "{}");
  ProbeAfter(answered_ ? kListenAgainUs : kProbeAgainUs);
}

void Kernel::ProbeAfter(int64_t delay_us) {
  core_.loop.Cancel(probe_again_);
  probe_again_ = core_.loop.After(delay_us, [this] { Probe(); });
}

// The answer to any probe counts, and so does any iopub message. A slow kernel would otherwise
// always be answering the last probe but one.
void Kernel::CheckReady() {
  if (!answered_) return;
  if (!heard_) return ProbeAfter(kListenAgainUs);
  core_.loop.Cancel(probe_again_);
  BecomeReady();
}

std::string Kernel::Execute(std::string_view code) {
  return ExecuteRequest(code, false);
}

std::string Kernel::ExecuteRequest(std::string_view code, bool silent) {
  std::string content = "{\"code\":";
  content.reserve(code.size() + code.size() / 8 + 160);
  AppendJsonString(&content, code);
  // stop_on_error is false: execd queues no runs, and the kernel would abort the next run if it
  // came too soon.
  content.append(silent ? ",\"silent\":true,\"store_history\":false"
                        : ",\"silent\":false,\"store_history\":true");
  content.append(",\"user_expressions\":{},\"allow_stdin\":false,\"stop_on_error\":false}");
  return Request(shell_.get(), "execute_request", content);
}

void Kernel::Settle(std::string_view code, Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  ready_ = false;
  KillAfter(kSettleUs, "it did not answer within 5 s");
  settling_ = ExecuteRequest(code, true);
}

void Kernel::Settled(const KernelMessage& message) {
  if (message.parent != settling_ || message.type != "execute_reply") return;
  const JsonValue content = message.content.root();
  if (content.Find("status").text() != "ok") {
    return Kill("it could not be prepared: " + std::string(content.Find("evalue").text()));
  }
  settling_.clear();
  BecomeReady();
}

void Kernel::BecomeReady() {
  // The kernel has answered and exited, and the loop has reported the exit first.
  if (!job_ || !job_->running()) return;
  ready_ = true;
  core_.loop.Cancel(deadline_);
  // Called as a copy, because the callback may call Settle, which replaces the callbacks.
  const auto on_ready = callbacks_.on_ready;
  on_ready();
}

void Kernel::Interrupt() {
  if (control_) {
    Request(control_.get(), "interrupt_request", "{}");
  } else {
    job_->Signal(SIGINT);
  }
}

void Kernel::KillAfter(int64_t delay_us, std::string reason) {
  core_.loop.Cancel(deadline_);
  deadline_ = core_.loop.After(
      delay_us, [this, reason = std::move(reason)]() mutable { Kill(std::move(reason)); });
}

void Kernel::Kill(std::string reason) {
  if (!job_ || !job_->running()) return;
  if (killed_because_.empty()) killed_because_ = std::move(reason);
  job_->Kill();
}

// Messages without a valid signature are ignored, because a program that has taken the port must
// not speak for the kernel.
void Kernel::OnShell(ZmtpMessage message) {
  const auto decoded = codec_.Decode(std::move(message.frames));
  if (!decoded) return;
  if (ready_) return callbacks_.on_reply(*decoded);
  if (!settling_.empty()) return Settled(*decoded);
  answered_ = answered_ || decoded->type == "kernel_info_reply";
  CheckReady();
}

void Kernel::OnIopub(ZmtpMessage message) {
  if (message.oversized) return callbacks_.on_left_out();
  const auto decoded = codec_.Decode(std::move(message.frames));
  if (!decoded) {
    if (decoded.error().code() != Code::kPermissionDenied) callbacks_.on_left_out();
  } else if (ready_) {
    callbacks_.on_output(*decoded);
  } else if (settling_.empty()) {
    heard_ = true;
    CheckReady();
  }
}

void Kernel::Written(bool is_error, std::string_view bytes) {
  if (ready_) {
    if (callbacks_.on_written && !tells_written_) callbacks_.on_written(is_error, bytes);
    return;
  }
  tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kTail)));
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
}

void Kernel::PauseOutput() {
  iopub_->Pause();
  output_->Pause();
  errors_->Pause();
}

void Kernel::ResumeOutput() {
  iopub_->Resume();
  output_->Resume();
  errors_->Resume();
}

void Kernel::DrainWritten() {
  output_->Drain();
  errors_->Drain();
}

void Kernel::Ended(const JobExit& exit) {
  if (ready_ && !iopub_->paused()) iopub_->Drain();
  DrainWritten();
  std::string reason = killed_because_.empty() ? exit.Describe() : killed_because_;
  if (!ready_) {
    reason = "the kernel ended before it answered: " + reason;
    if (!tail_.empty()) reason += ": " + tail_;
  }
  callbacks_.on_end(reason);
}

}  // namespace atl::execd
