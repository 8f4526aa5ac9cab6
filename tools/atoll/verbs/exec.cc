// atoll exec
#include <unistd.h>

#include <memory>

#include "tools/atoll/client/accounts.h"
#include "tools/atoll/client/command.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/terminal.h"
#include "tools/atoll/verbs/verbs.h"

namespace atl::cli {
namespace {

struct ExecOptions {
  std::string id;
  Words command;
  Words env, env_files;
  std::string cwd;
  std::string user;
  bool interactive = false;
  bool terminal = false;
  bool detach = false;
};

Result<int> Exec(const Settings& settings, const ExecOptions& options) {
  if (options.terminal && isatty(STDIN_FILENO) != 1) {
    return Fail(Code::kInvalidArgument,
                "-t needs a terminal as standard input; leave it out, -i pipes");
  }
  if (options.detach && (options.interactive || options.terminal)) {
    return Fail(Code::kInvalidArgument, "-d cannot be combined with -i or -t");
  }
  Command command{options.command, {}, options.cwd};
  ATOLL_ASSIGN(command.env, ExpandEnvironment(options.env, options.env_files));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  if (!options.user.empty()) {
    ATOLL_ASSIGN(command.user, FindUser(api, id, options.user));
  }
  if (options.terminal || options.interactive) {
    ATOLL_ASSIGN(const Exit exit, RunInTerminal(api, id, command, options.terminal));
    return Tell(api, settings, id, exit);
  }
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  command.background = options.detach;
  ATOLL_ASSIGN(const Exit exit, RunCommand(api, id, command, cancel_fd));
  return Tell(api, settings, id, exit);
}

}  // namespace

void AddExecVerb(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<ExecOptions>();
  ExecOptions* const o = options.get();
  Verb& exec = root.Add("exec", "Run a command in a sandbox that exists");
  exec.Takes(Argument{"ID", kOneSandbox, &o->id});
  exec.TakesCommand(Argument{"COMMAND", "What to run", &o->command});
  exec.Takes(Option{"-i,--interactive", "", "Pass our standard input on", &o->interactive});
  exec.Takes(Option{"-t,--tty", "", "Give it a terminal, as large as ours", &o->terminal});
  exec.Takes(Option{"-d,--detach", "", "Leave it running, print its id", &o->detach});
  exec.Takes(
      Option{"-e,--env", "NAME=VALUE", "Set a variable; NAME alone passes ours on", &o->env});
  exec.Takes(Option{"--env-file", "FILE", "Variables, one a line", &o->env_files});
  exec.Takes(Option{"-u,--user", "USER[:GROUP]", "By name or number; else the image's", &o->user});
  exec.Takes(Option{"-w,--workdir", "PATH", "Directory to run in; else the image's", &o->cwd});
  exec.Says(
      "Exit codes: the command's own; 128 + n if signal n ended it, and why is told; 125 if it "
      "could\n"
      "not be run; 126 if it is no program; 127 if there is none of that name. Ctrl-C stops it.\n\n"
      "Examples:\n"
      "  atoll exec web ls -l /tmp\n"
      "  atoll exec -it -u 1000 web bash");
  exec.Does([options, &settings] { return Exec(settings, *options); }, kRunFailed);
}

}  // namespace atl::cli
