#include "execd/code/zygote.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>

#include "execd/run/metrics.h"
#include "execd/run/spawn.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

constexpr std::string_view kProgram =
#include "execd/code/zygote.inc"
    ;

// End of argv in every kernelspec of IPython's kernel, and in no other.
constexpr std::array<std::string_view, 4> kLauncher = {"-m", "ipykernel_launcher", "-f",
                                                       "{connection_file}"};
// Enough for the imports on a busy host, and a fork. Then the zygote counts as hung.
constexpr int64_t kBirthUs = 20'000'000;
// Memory that must be free. A zygote needs 60 MiB, or 110 with the libraries. With less free memory
// it would cost more than its kernels save.
constexpr int64_t kRoom = 128 << 20, kLibrariesRoom = 512 << 20;

// Returns empty for other kernels.
std::vector<std::string> ZygoteArgv(const Kernelspec& spec) {
  if (spec.interrupt_by_message || spec.argv.size() <= kLauncher.size()) return {};
  const auto tail = spec.argv.end() - static_cast<std::ptrdiff_t>(kLauncher.size());
  if (!std::equal(kLauncher.begin(), kLauncher.end(), tail)) return {};
  std::vector<std::string> argv(spec.argv.begin(), tail);
  argv.emplace_back("-");
  return argv;
}

// Reads one byte and returns the credentials of its sender.
Result<ucred> Sender(int socket) {
  char byte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return FailSys("recvmsg from a new kernel");
  const cmsghdr* message = CMSG_FIRSTHDR(&header);
  if (got == 0 || !message || message->cmsg_level != SOL_SOCKET ||
      message->cmsg_type != SCM_CREDENTIALS) {
    return Fail(Code::kUnavailable, "the new kernel has ended");
  }
  ucred who;
  std::memcpy(&who, CMSG_DATA(message), sizeof who);
  return who;
}

Result<UniqueFd> Program() {
  ATOLL_ASSIGN(UniqueFd program, sys::SealedMemfd("kernel-zygote", kProgram, false));
  if (::lseek(program.get(), 0, SEEK_SET) != 0) return FailSys("lseek of the zygote's program");
  return program;
}

tl::unexpected<Error> Odd(std::string_view what) {
  return Fail(Code::kFailedPrecondition, std::string(what));
}

}  // namespace

bool Zygote::Makes(const Kernelspec& spec) {
  return !ZygoteArgv(spec).empty();
}

Result<UniqueFd> Zygote::Launcher(const Kernelspec& spec, const std::string& connection_file,
                                  std::vector<std::string>* argv) {
  *argv = ZygoteArgv(spec);
  argv->insert(argv->end(), {"-f", connection_file});
  return Program();
}

Zygote::~Zygote() {
  Stop();
}

Status Zygote::Prepare(const Kernelspec& spec, const Environment& env) {
  std::vector<std::string> argv = ZygoteArgv(spec);
  if (argv.empty()) return Odd("no kernel of IPython");
  if (given_up_) return Odd("it has ended before its first kernel");
  if (job_ && argv == argv_ && env.entries() == env_) return {};
  const int64_t room = MemoryRoom(core_);
  if (room < kRoom) return Odd("little memory is left");
  Stop();
  argv_ = argv;
  env_ = env.entries();
  if (room >= kLibrariesRoom) argv.insert(argv.end(), {"numpy", "pandas"});
  const Status started = Start(std::move(argv), env);
  given_up_ = !started;
  return started;
}

Status Zygote::Start(std::vector<std::string> argv, const Environment& env) {
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_SEQPACKET));
  // Non-blocking, because the zygote may refuse to read.
  if (::fcntl(pair.a.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  ATOLL_ASSIGN(const UniqueFd program, Program());
  ATOLL_ASSIGN(const UniqueFd null, OpenNull());
  SpawnSpec process;
  process.programs = PathCandidates(argv[0], env);
  process.argv = std::move(argv);
  process.env = env.entries();
  process.identity = &core_.user;
  process.stdio[0] = program.get();
  process.stdio[1] = process.stdio[2] = null.get();
  process.report = pair.b.get();
  ATOLL_ASSIGN(job_, Job::Start(&core_, std::move(process), 0, [this](const JobExit& exit) {
                 // A zygote that was killed after its first kernel is started again.
                 given_up_ = !proven_;
                 if (given_up_) {
                   LogLine(LogLevel::kWarning, "kernels start the ordinary way")
                       .Add("zygote", exit.Describe());
                 }
                 // Destroyed after this turn, because the job is the caller.
                 core_.loop.Post([job = std::shared_ptr<Job>(std::move(job_))] {});
                 control_.reset();
               }));
  // Incomplete forks are killed with the zygote.
  job_->EndWhole();
  control_ = std::move(pair.a);
  proven_ = false;
  return {};
}

// Its end closes the sockets of pending forks.
void Zygote::Stop() {
  job_.reset();
  control_.reset();
}

Result<Zygote::Id> Zygote::Fork(const Kernelspec& spec, const Environment& env, Order order,
                                Then then) {
  ATOLL_TRY(Prepare(spec, env));
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_STREAM));
  const int on = 1;
  if (::setsockopt(pair.a.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return FailSys("setsockopt SO_PASSCRED");
  }
  const int cpus = static_cast<int>(std::ceil(CpuLimit(core_)));
  const int fds[] = {order.null, order.output, order.cwd, pair.b.get()};
  ATOLL_TRY(
      sys::SendMessage(control_.get(), std::to_string(cpus) + " " + order.connection_file, fds));
  const Id id = next_++;
  Birth birth;
  birth.socket = std::move(pair.a);
  birth.on_exit = std::move(order.on_exit);
  birth.then = std::move(then);
  ATOLL_ASSIGN(birth.watch,
               core_.loop.Watch(birth.socket.get(), EPOLLIN, [this, id](uint32_t) { OnWord(id); }));
  birth.deadline = core_.loop.After(kBirthUs, [this] {
    if (job_) job_->Kill();
  });
  births_.emplace(id, std::move(birth));
  return id;
}

void Zygote::Forget(Id id) {
  const auto found = births_.find(id);
  if (found == births_.end()) return;
  core_.loop.Unwatch(found->second.watch);
  core_.loop.Cancel(found->second.deadline);
  births_.erase(found);
}

void Zygote::OnWord(Id id) {
  const auto found = births_.find(id);
  if (found == births_.end()) return;
  auto job = Adopt(&found->second);
  proven_ = proven_ || job;
  const Then then = std::move(found->second.then);
  Forget(id);
  then(std::move(job));
}

Result<std::unique_ptr<Job>> Zygote::Adopt(Birth* birth) {
  ATOLL_ASSIGN(const ucred who, Sender(birth->socket.get()));
  if (who.uid != core_.user.uid || !core_.IsOrphan(who.pid) || ::getpgid(who.pid) != who.pid) {
    return Odd("pid " + std::to_string(who.pid) + " is no new kernel");
  }
  ATOLL_ASSIGN(auto job, Job::Adopt(&core_, who.pid, std::move(birth->on_exit)));
  if (::send(birth->socket.get(), "+", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
    return FailSys("send to the new kernel");
  }
  return job;
}

}  // namespace atl::execd
