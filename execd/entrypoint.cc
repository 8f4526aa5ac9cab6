#include "execd/entrypoint.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

constexpr const char* kDefaultEnvsFile = "/opt/opensandbox/.env";

std::string BootstrapShell(const Sandbox& sandbox) {
  const char* chosen = sandbox.env.Get("BOOTSTRAP_SHELL");
  if (chosen && *chosen) return chosen;
  const std::string shell = sandbox.Shell();
  return shell.empty() ? "/bin/sh" : shell;
}

Status FillSandbox(Sandbox* sandbox, const wire::StartMessage& message) {
  sandbox->id = message.sandbox_id;
  sandbox->started_at = ::time(nullptr);
  sandbox->access_token = message.access_token;
  sandbox->env = Environment(message.env);
  ATOLL_ASSIGN(sandbox->user, ResolveUser(message.user));
  // Docker sets these two when the image does not, and shells behave oddly without.
  if (!sandbox->env.Get("PATH")) sandbox->env.Set("PATH", kDefaultPath);
  if (!sandbox->env.Get("HOME")) sandbox->env.Set("HOME", sandbox->user.home);
  const char* envs = sandbox->env.Get("EXECD_ENVS");
  if (!envs || !*envs) sandbox->env.Set("EXECD_ENVS", kDefaultEnvsFile);
  if (!message.cwd.empty()) {
    if (message.cwd[0] != '/' || message.cwd.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument,
                  "working directory '" + message.cwd + "': must be absolute");
    }
    sandbox->cwd = message.cwd;
    if (message.cwd == "/") return {};  // where process 1 stands
    // As root, not as the image's user: OCI runtimes create it before they drop privileges.
    auto directory = MakeDirectory(message.cwd, Identity());
    if (!directory) return Fail(std::move(directory).error().Wrap("working directory"));
    if (::fchdir(directory->get()) != 0) return FailSys("chdir " + message.cwd);
  }
  return {};
}

// Programs append to this file to reach later commands; it exists from the start, as upstream's
// script makes it. Best effort: a read-only image has none.
void TouchEnvsFile(const Sandbox& sandbox) {
  const std::string path = sandbox.env.Get("EXECD_ENVS");
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return;  // of the image, or of every root
  const size_t slash = path.rfind('/');
  if (path.empty() || path[0] != '/' || slash + 1 == path.size()) return;
  const auto directory = MakeDirectory(slash == 0 ? "/" : path.substr(0, slash), sandbox.user);
  if (!directory) return;
  const FileIdentity as(sandbox.user);
  const UniqueFd file(::openat(directory->get(), path.c_str() + slash + 1,
                               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
}

// The spawner has raised the score of everything in here (wire::kOomScore): in a sandbox full of
// processes of one size the kernel would otherwise take any of them, the entrypoint too, and with
// it the sandbox. Not by the child itself: as long as it shares our memory its /proc files belong
// to the host's root. Fails for a program that nobody may read, which is then an equal.
void KeepFromMemoryKiller(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/oom_score_adj";
  [[maybe_unused]] const auto written = sys::WriteFileAt(AT_FDCWD, path, "0");
}

}  // namespace

std::vector<std::string> BootstrapArgv(const Sandbox& sandbox, std::vector<std::string> argv) {
  const char* command = sandbox.env.Get("BOOTSTRAP_CMD");
  if (command && *command) {
    argv = {BootstrapShell(sandbox), "-c", command};
  } else if (argv.size() > 1 && argv[0] == "-c") {
    std::string joined = argv[1];
    for (size_t i = 2; i < argv.size(); ++i) joined.append(" ").append(argv[i]);
    argv = {BootstrapShell(sandbox), "-c", std::move(joined)};
  } else if (argv.empty()) {
    argv = {BootstrapShell(sandbox)};
  }
  const char* script = sandbox.env.Get("EXECD_BOOTSTRAP_PRE_SCRIPT");
  if (script && *script) {
    // The shell's own "$@" carries the words unharmed.
    std::vector<std::string> wrapped = {BootstrapShell(sandbox), "-c",
                                        ". \"$EXECD_BOOTSTRAP_PRE_SCRIPT\" && exec \"$@\"",
                                        "bootstrap"};
    wrapped.insert(wrapped.end(), argv.begin(), argv.end());
    argv = std::move(wrapped);
  }
  return argv;
}

Result<std::unique_ptr<Entrypoint>> Entrypoint::Open(EventLoop* loop) {
  auto entrypoint = std::make_unique<Entrypoint>();
  Entrypoint* raw = entrypoint.get();
  const auto keep = [raw](std::string_view bytes) { raw->output_.Append(bytes); };
  ATOLL_ASSIGN(raw->null_, OpenNull());
  ATOLL_ASSIGN(raw->out_, OutputPipe::Open(loop, &raw->out_write_, keep));
  ATOLL_ASSIGN(raw->err_, OutputPipe::Open(loop, &raw->err_write_, keep));
  return entrypoint;
}

Status Entrypoint::Start(Sandbox* sandbox, const wire::StartMessage& message,
                         std::function<void(int)> on_exit) {
  ATOLL_TRY(FillSandbox(sandbox, message));
  SpawnSpec spec;
  spec.argv = BootstrapArgv(*sandbox, message.argv);
  spec.programs = PathCandidates(spec.argv[0], sandbox->env);
  // Without the EXECD_ENVS file: that one is for what comes later.
  spec.env = sandbox->env.entries();
  spec.identity = &sandbox->user;
  spec.stdio[0] = null_.get();
  spec.stdio[1] = out_write_.get();
  spec.stdio[2] = err_write_.get();
  ATOLL_ASSIGN(job_, Job::Start(sandbox, std::move(spec), 0,
                                [on_exit = std::move(on_exit)](const JobExit& exit) {
                                  on_exit(exit.signal != 0 ? 128 + exit.signal : exit.code);
                                }));
  for (UniqueFd* end : {&null_, &out_write_, &err_write_}) end->reset();
  KeepFromMemoryKiller(job_->pid());
  // While the first command is still on its way: what it will look for is then in the kernel's
  // caches.
  sandbox->loop.Later([sandbox] {
    TouchEnvsFile(*sandbox);
    [[maybe_unused]] const std::string shell = sandbox->Shell();
  });
  return {};
}

void Entrypoint::Forward(int signal) {
  if (job_->running()) ::kill(job_->pid(), signal);
}

}  // namespace atl::execd
