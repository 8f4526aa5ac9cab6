#include "tools/atoll/verbs/code.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/place.h"
#include "tools/atoll/client/code_stream.h"
#include "tools/atoll/client/create_body.h"
#include "tools/atoll/client/guard.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

int g_interrupt = -1;  // the signal handler writes to it

void OnInterrupt(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t n = write(g_interrupt, "", 1);
  errno = saved;
}

// Returns a descriptor that is readable after Ctrl-C. Ctrl-C ends a run of code and not this
// process.
Result<UniqueFd> WatchInterrupts() {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  for (const int fd : {pipe.read.get(), pipe.write.get()}) {
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  }
  g_interrupt = pipe.write.release();
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  if (sigaction(SIGINT, &action, nullptr) != 0) return FailSys("sigaction");
  return std::move(pipe.read);
}

bool TakeInterrupt(int fd) {
  char buffer[64];
  return read(fd, buffer, sizeof buffer) > 0;
}

class Notebook {
 public:
  // `plots` is a descriptor of the directory `folder`.
  Notebook(Api api, ExecdWay way, UniqueFd plots, std::string folder, UniqueFd interrupt)
      : api_(std::move(api)),
        way_(std::move(way)),
        plots_(std::move(plots)),
        folder_(std::move(folder)),
        interrupt_(std::move(interrupt)) {}

  Status Open(const std::string& language) {
    const auto answer = api_.Send(Call("/code/context", {{"language", language}}));
    if (!answer) return Fail(answer.error());
    ATOLL_ASSIGN(const json context, ObjectOf(*answer));
    context_ = TextOf(context, "id");
    return {};
  }

  // Returns true if the code ran to its end without an error.
  Result<bool> Run(const std::string& code) {
    CodeStream stream(
        {[](std::string_view bytes, bool is_error) { return Show(bytes, is_error); },
         [this](std::string_view kind, std::string_view content) { return Keep(kind, content); }});
    http::Client::Call call =
        Call("/code?encoding=base64", {{"code", code}, {"context", {{"id", context_}}}});
    call.cancel_fd = interrupt_.get();
    const auto answer = api_.Stream(
        std::move(call), [&stream](std::string_view bytes) { return stream.Feed(bytes); });
    if (!answer && answer.error().error_number() == ECANCELED) return Interrupted();
    if (!stream.ended() && !stream.failed()) {
      if (!answer) return Fail(answer.error());
      return Fail(Code::kUnavailable, "the sandbox has ended");
    }
    return !stream.failed();
  }

  // Reads and runs code until the end of the input.
  Status Talk() {
    std::string cell;
    for (;;) {
      const std::optional<std::string> line = Ask(cell.empty() ? ">>> " : "... ");
      if (!line) break;
      if (*line == "\x03") {
        cell.clear();
        continue;
      }
      cell += *line + "\n";
      if (line->empty() && cell == "\n") cell.clear();
      if (cell.empty() || WaitsForMore(cell)) continue;
      ATOLL_TRY(Run(cell));
      cell.clear();
    }
    std::fputs("\n", stderr);
    return {};
  }

 private:
  http::Client::Call Call(const std::string& path, const json& body) const {
    http::Client::Call call;
    call.method = "POST";
    call.target = way_.base + path;
    call.headers = way_.headers;
    call.headers.Set("Content-Type", "application/json");
    call.body = JsonText(body);
    return call;
  }

  static bool Show(std::string_view bytes, bool is_error) {
    const int fd = is_error ? STDERR_FILENO : STDOUT_FILENO;
    if (is_error && isatty(fd) != 1) return sys::WriteAll(fd, WithoutColours(bytes)).has_value();
    return sys::WriteAll(fd, bytes).has_value();
  }

  std::string PathOf(const std::string& name) const {
    return Printable(folder_ == "." ? name : folder_ + (folder_.ends_with('/') ? "" : "/") + name);
  }

  // Saves a picture under the first unused name.
  bool Keep(std::string_view kind, std::string_view content) {
    std::string name;
    do {
      name = "plot-" + std::to_string(++last_plot_) + "." + std::string(kind);
    } while (faccessat(plots_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0);
    auto file = PlacedFile::Begin(plots_.get(), name);
    Status kept = file ? sys::WriteAll(file->fd(), content) : Status(Fail(file.error()));
    if (kept) kept = file->Finish();
    if (kept) {
      std::fprintf(stderr, "atoll: %s\n", PathOf(name).c_str());
    } else {
      std::fprintf(stderr, "atoll: cannot keep %s: %s\n", PathOf(name).c_str(),
                   kept.error().message().c_str());
    }
    return true;
  }

  // Closing the stream has interrupted the run (execd/code/KERNELS.md). The code may take up to ten
  // seconds to stop, and the context is busy until then, so this waits with an empty run.
  Result<bool> Interrupted() {
    TakeInterrupt(interrupt_.get());
    std::fputs("atoll: interrupted\n", stderr);
    constexpr int kTries = 240, kPauseMs = 50;
    for (int i = 0; i < kTries; ++i) {
      const auto answer =
          api_.Send(Call("/code", {{"code", " "}, {"context", {{"id", context_}}}}));
      if (answer) return false;
      if (answer.error().message().find("is busy") == std::string::npos) {
        return Fail(answer.error());
      }
      poll(nullptr, 0, kPauseMs);
    }
    return Fail(Code::kDeadlineExceeded, "the code does not stop");
  }

  // Reads a line without its newline. "\x03" after Ctrl-C; nothing at the end of the input.
  std::optional<std::string> Ask(const char* prompt) {
    std::fputs(prompt, stderr);
    for (;;) {
      const size_t end = typed_.find('\n');
      if (end != std::string::npos) {
        std::string line = typed_.substr(0, end);
        typed_.erase(0, end + 1);
        return line;
      }
      pollfd wanted[] = {{interrupt_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
      if (poll(wanted, 2, -1) < 0 && errno != EINTR) return std::nullopt;
      if (TakeInterrupt(interrupt_.get())) {
        std::fputs("\n", stderr);
        typed_.clear();
        return "\x03";
      }
      if (wanted[1].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      typed_.append(buffer, static_cast<size_t>(got));
    }
  }

  Api api_;
  ExecdWay way_;
  UniqueFd plots_;
  std::string folder_;
  UniqueFd interrupt_;
  std::string context_, typed_;
  int last_plot_ = 0;
};

Result<int> Work(Notebook& notebook, const CodeOptions& options) {
  ATOLL_TRY(notebook.Open(options.language.empty() ? "python" : options.language));
  if (options.code.empty() && isatty(STDIN_FILENO) == 1) {
    ATOLL_TRY(notebook.Talk());
    return 0;
  }
  constexpr size_t kMaxCode = 8 << 20;
  std::string code = options.code;
  if (code.empty()) {
    ATOLL_ASSIGN(code, sys::ReadAll(STDIN_FILENO, kMaxCode));
  }
  ATOLL_ASSIGN(const bool good, notebook.Run(code));
  return good ? 0 : kFailed;
}

}  // namespace

Result<int> RunCode(const Settings& settings, CodeOptions options) {
  if (options.run.image.empty()) options.run.image = "code-interpreter";
  ATOLL_ASSIGN(UniqueFd plots, sys::Open(options.plots, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(UniqueFd interrupt, WatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json body, CreateBody(options.run, {}, Guard::kLease));
  const auto answer = api.Send("POST", "/sandboxes", JsonText(body));
  if (!answer) return Fail(answer.error());
  ATOLL_ASSIGN(const json created, ObjectOf(*answer));
  const std::string id = Printable(TextOf(created, "id"));
  ATOLL_ASSIGN(Guard guard, Guard::Start(settings, id, options.run.timeout_seconds));
  ATOLL_ASSIGN(ExecdWay way, FindExecd(api, id));
  Notebook notebook(std::move(api), std::move(way), std::move(plots), options.plots,
                    std::move(interrupt));
  return Work(notebook, options);  // the guard deletes the sandbox
}

void AddCodeVerb(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<CodeOptions>();
  CodeOptions* const o = options.get();
  Verb& code = root.Add("code", "Run code in a language of an image, keeping its state");
  code.Takes(Argument{
      "IMAGE", "Image with Jupyter kernels, as 'atoll image ls' shows it; else code-interpreter",
      &o->run.image, false});
  code.Takes(
      Option{"-c,--code", "CODE", "Run this, then end; else what is typed or piped in", &o->code});
  code.Takes(Option{"-l,--language", "LANGUAGE", "One of the image's; else python", &o->language});
  code.Takes(
      Option{"--plots", "DIRECTORY", "Where pictures go, as plot-1.png …; else here", &o->plots});
  code.Takes(Option{"-m,--memory", "LIMIT", "Limit: memory", &o->run.limits["memory"]});
  code.Takes(
      Option{"-e,--env", "NAME=VALUE", "Set a variable; NAME alone passes ours on", &o->run.env});
  code.Takes(Option{"--network", "NAME", "As of run; none: nothing at all", &o->run.network});
  code.Says(
      "In a new sandbox, which is gone when this ends. What is typed runs line by line; a line "
      "that\n"
      "opens something (with a colon or a bracket) goes on to an empty line. Ctrl-C interrupts "
      "what\n"
      "runs and keeps the state, Ctrl-D ends. The exit code is 1 if code with -c has failed.\n\n"
      "Examples:\n"
      "  atoll code kernels\n"
      "  atoll code kernels -c 'import pandas; print(pandas.Series([1, 2]).mean())'\n"
      "  atoll code kernels --plots /tmp <plot.py\n"
      "  atoll code kernels -l bash -c 'echo $SHELL'");
  code.Does([options, &settings] { return RunCode(settings, *options); });
}

}  // namespace atl::cli
