// Measures a live sandbox's exec API: commands beside the same program without a sandbox, files,
// transfers beside a plain relay, isolated sessions, and execd itself.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>
#include <thread>

#include "bench/clock.h"
#include "bench/host_view.h"
#include "bench/lab.h"
#include "bench/process.h"
#include "bench/relay.h"
#include "runtime/base/sys.h"
#include "runtime/wire/start.h"

namespace atl::bench {
namespace {

constexpr int kCount = 200;
constexpr int kWarmUp = 5;
constexpr int kRounds = 7;
constexpr uint64_t kTransfer = uint64_t{128} << 20;
constexpr int kCallsInARow = 300;
constexpr int kCommands = 100;
constexpr char kSmall[] = R"({"memory":"64Mi"})";
constexpr char kBoundary[] = "atoll-bench";
constexpr char kMultipart[] = "Content-Type: multipart/form-data; boundary=atoll-bench\r\n";

struct CommandLab : Lab {
  std::unique_ptr<Relay> relay;
  Sandbox busybox, debian, small;
  std::optional<LeanClient> files;  // connected to the exec API of `busybox`

  Result<LeanClient> ClientOf(const Sandbox& sandbox) const {
    return LeanClient::Connect(daemon->port(), sandbox.command_headers);
  }
};
using LabPtr = std::shared_ptr<CommandLab>;

// The multipart bytes before and after the content of an upload of one file.
std::string BeforeContent(const std::string& path) {
  const std::string line = std::string("--") + kBoundary + "\r\n";
  return line +
         "Content-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\r\n"
         "{\"path\":\"" +
         path + "\"}\r\n" + line +
         "Content-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\r\n";
}
std::string AfterContent() {
  return std::string("\r\n--") + kBoundary + "--\r\n";
}

// Returns the "Anonymous:" line of a process's memory. Pages of its program do not count, because
// all sandboxes share them.
Result<uint64_t> AnonymousKib(pid_t pid) {
  ATOLL_ASSIGN(
      const std::string text,
      sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/smaps_rollup", 64 << 10));
  const size_t at = text.find("Anonymous:");
  const size_t digits = text.find_first_of("0123456789", at);
  uint64_t kib = 0;
  if (at == std::string::npos || digits == std::string::npos ||
      std::from_chars(text.data() + digits, text.data() + text.size(), kib).ec != std::errc()) {
    return Fail(Code::kInternal, "no Anonymous: in smaps_rollup");
  }
  return kib;
}

Result<uint64_t> StrippedSize(const std::string& program, const std::string& copy) {
  ATOLL_ASSIGN(const pid_t pid, Spawn({"strip", "-o", copy, program}, -1, STDERR_FILENO));
  ATOLL_TRY(Await(pid, "strip"));
  struct stat info {};
  if (::stat(copy.c_str(), &info) != 0) return FailSys("stat " + copy);
  return static_cast<uint64_t>(info.st_size);
}

// Times an execd that parks, finds that no client can claim it any more, and ends. The sample
// includes all three.
Result<int64_t> ParkOnce(const std::string& execd) {
  ATOLL_ASSIGN(sys::SocketPair gate, sys::UnixPair(SOCK_SEQPACKET));
  gate.a.reset();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, gate.b.get(), 100 + wire::kExecdGateFd);
  ::posix_spawn_file_actions_adddup2(&actions, 100 + wire::kExecdGateFd, wire::kExecdGateFd);
  char name[] = "execd";
  char* const argv[] = {name, nullptr};
  char* const envp[] = {nullptr};
  pid_t pid = -1;
  const int64_t start = NowMicros();
  const int error = ::posix_spawn(&pid, execd.c_str(), &actions, nullptr, argv, envp);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Fail(SysError("spawn " + execd, error));
  ATOLL_TRY(Await(pid, "execd without a daemon"));
  return MicrosSince(start);
}

// Sends a request's head and returns the socket.
Result<UniqueFd> Ask(const CommandLab& lab, const Sandbox& sandbox, const std::string& line,
                     const std::string& headers) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectLoopback(lab.daemon->port()));
  const std::string head = line + " HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n" +
                           sandbox.command_headers + headers + "\r\n";
  ATOLL_TRY(sys::WriteAll(socket.get(), head));
  return socket;
}

// Reads the head of an answer. Adds the bytes of the body that came with it to `extra`.
Status TakeHead(int socket, uint64_t* extra) {
  std::string head;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    char buffer[4096];
    const ssize_t n = ::read(socket, buffer, sizeof buffer);
    if (n <= 0) return Fail(Code::kUnavailable, "no answer: " + head);
    head.append(buffer, static_cast<size_t>(n));
    end = head.find("\r\n\r\n");
  }
  if (!head.starts_with("HTTP/1.1 200")) return Fail(Code::kInternal, head);
  *extra = head.size() - end - 4;
  return {};
}

double MibPerSecond(int64_t start) {
  return static_cast<double>(kTransfer >> 20) * 1e6 / static_cast<double>(MicrosSince(start));
}

Result<double> UploadOnce(const CommandLab& lab, const Sandbox& sandbox) {
  const std::string before = BeforeContent("/root/transfer"), after = AfterContent();
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(
      const UniqueFd socket,
      Ask(lab, sandbox, "POST " + sandbox.execd_path + "/files/upload",
          kMultipart + ("Content-Length: " +
                        std::to_string(before.size() + kTransfer + after.size()) + "\r\n")));
  ATOLL_TRY(sys::WriteAll(socket.get(), before));
  ATOLL_TRY(SendBytes(socket.get(), kTransfer));
  ATOLL_TRY(sys::WriteAll(socket.get(), after));
  uint64_t extra = 0;
  ATOLL_TRY(TakeHead(socket.get(), &extra));
  return MibPerSecond(start);
}

Result<double> DownloadOnce(const CommandLab& lab, const Sandbox& sandbox) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(
      const UniqueFd socket,
      Ask(lab, sandbox, "GET " + sandbox.execd_path + "/files/download?path=/root/transfer", ""));
  uint64_t extra = 0;
  ATOLL_TRY(TakeHead(socket.get(), &extra));
  ATOLL_TRY(TakeBytes(socket.get(), kTransfer - extra));
  return MibPerSecond(start);
}

Status RunOne(const CommandLab& lab, const Sandbox& sandbox, int number) {
  ATOLL_ASSIGN(LeanClient client, lab.ClientOf(sandbox));
  const std::string digits = std::to_string(number);
  ATOLL_ASSIGN(const std::string events,
               client.Call("POST", sandbox.command_path,
                           R"({"command":"echo out)" + digits + "; exit " + digits + R"("})"));
  const std::string end =
      number == 0 ? R"("type":"execution_complete")" : R"("evalue":")" + digits + R"(")";
  // Accepts the text with and without its line end, because releases differ in that.
  const std::string text = R"("text":"out)" + digits;
  const bool told = events.find(text + R"(\n")") != std::string::npos ||
                    events.find(text + "\"") != std::string::npos;
  if (!told || events.find(end) == std::string::npos) {
    return Fail(Code::kInternal, "command " + digits + ": " + events);
  }
  return {};
}

Status Together(const CommandLab& lab, const Sandbox& sandbox) {
  std::vector<Status> outcomes(kCommands);
  std::vector<std::thread> threads;
  for (int i = 0; i < kCommands; ++i) {
    threads.emplace_back([&, i] { outcomes[static_cast<size_t>(i)] = RunOne(lab, sandbox, i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& outcome : outcomes) ATOLL_TRY(std::move(outcome));
  return {};
}

Status Write(CommandLab& lab, const std::string& path, size_t size) {
  const std::string body = BeforeContent(path) + std::string(size, 'x') + AfterContent();
  ATOLL_TRY(lab.files->Call("POST", lab.busybox.execd_path + "/files/upload", body, kMultipart));
  return {};
}

Status Read(CommandLab& lab, const std::string& path, size_t size) {
  ATOLL_ASSIGN(const std::string content,
               lab.files->Call("GET", lab.busybox.execd_path + "/files/download?path=" + path));
  if (content.size() == size) return {};
  return Fail(Code::kInternal, std::to_string(content.size()) + " bytes of " + path + " came back");
}

// Returns a phase that times one call per sample.
Phase Timed(Series series, int samples, int rest_ms, const std::string& turns,
            const std::function<Status()>& call) {
  const std::string name = series.name;
  return {.series = {std::move(series)},
          .samples = samples,
          .warm_up = kWarmUp,
          .rest_ms = rest_ms,
          .turns = turns,
          .run = [=](Take& take) -> Status {
            const int64_t start = NowMicros();
            ATOLL_TRY(call());
            take.AddMs(name, MicrosSince(start));
            return {};
          }};
}

Phase EchoPhase(const LabPtr& lab, const std::string& name, Sandbox CommandLab::*sandbox, bool flat,
                std::vector<Bound> bounds) {
  return {
      .series = {{name + ": first output", "request of `echo hi` → its `stdout` event", "ms", {}},
                 {name + ": complete", "… → end of the event stream", "ms", std::move(bounds)}},
      .samples = kCount,
      .warm_up = kWarmUp,
      .rest_ms = flat ? 0 : kRestMs,
      .turns = flat ? "" : "commands",
      .run = [=](Take& take) -> Status {
        ATOLL_ASSIGN(const CommandMicros micros, lab->api->Echo((*lab).*sandbox));
        take.AddMs(name + ": first output", micros.first);
        take.AddMs(name + ": complete", micros.complete);
        return {};
      }};
}

// Runs the same command without a sandbox. No exec daemon can be faster.
Phase AlonePhase(const std::string& name, const std::vector<std::string>& argv, bool flat) {
  return {.series = {{name, "spawn → reaped, on the host: the floor of a command", "ms", {}}},
          .samples = kCount,
          .warm_up = kWarmUp,
          .rest_ms = flat ? 0 : kRestMs,
          .turns = flat ? "" : "commands",
          .host = true,
          .run = [=](Take& take) -> Status {
            ATOLL_ASSIGN(const RunMicros micros, RunTimed(argv, -1));
            take.AddMs(name, micros.exit);
            return {};
          }};
}

void AddCommands(const LabPtr& lab, bool flat, Phases* phases) {
  const std::string how = flat ? ", flat" : "";
  const double more = flat ? 0.15 : 0.35;
  std::vector<Bound> sh = {{.at_most = more, .less = "command/sh alone" + how}};
  if (!flat) sh.push_back({.at_most = 0.8});
  phases->push_back(EchoPhase(lab, "sh" + how, &CommandLab::busybox, flat, sh));
  phases->push_back(EchoPhase(lab, "bash" + how, &CommandLab::debian, flat,
                              {{.at_most = more, .less = "command/bash alone" + how}}));
  phases->push_back(AlonePhase("sh alone" + how, {"busybox", "sh", "-c", "echo hi"}, flat));
  phases->push_back(AlonePhase("bash alone" + how, {"bash", "-c", "echo hi"}, flat));
}

void AddFiles(const LabPtr& lab, Phases* phases) {
  // Creates the files here, because a run of the read phases alone needs them, too.
  phases->push_back({.run = [=](Take&) -> Status {
    ATOLL_TRY(Write(*lab, "/root/block4", 4 << 10));
    return Write(*lab, "/root/block64", 64 << 10);
  }});
  for (const int kib : {4, 64}) {
    const std::string size = std::to_string(kib) + " KiB";
    const std::string path = "/root/block" + std::to_string(kib);
    const auto bytes = static_cast<size_t>(kib) << 10;
    phases->push_back(
        Timed({"write of " + size, "one upload that replaces the file", "ms", {{.at_most = 1}}},
              kCount, 2, "files", [=] { return Write(*lab, path, bytes); }));
    phases->push_back(Timed({"read of " + size, "one download", "ms", {{.at_most = 1}}}, kCount, 2,
                            "files", [=] { return Read(*lab, path, bytes); }));
  }
  phases->push_back({.series = {{"file calls a second",
                                 "300 `GET …/files/info`, one after the other",
                                 "1/s",
                                 {{.at_least = 3000}}}},
                     .samples = 11,
                     .run = [=](Take& take) -> Status {
                       const int64_t start = NowMicros();
                       for (int i = 0; i < kCallsInARow; ++i) {
                         ATOLL_TRY(lab->files->Call(
                             "GET", lab->busybox.execd_path + "/files/info?path=/root/block64"));
                       }
                       take.Add("file calls a second",
                                kCallsInARow * 1e6 / static_cast<double>(MicrosSince(start)));
                       return {};
                     }});
}

Phase TransferPhase(const std::string& name, const std::string& what, bool host,
                    std::vector<Bound> bounds, const std::function<Result<double>()>& transfer) {
  return {.series = {{name, what, "MiB/s", std::move(bounds)}},
          .samples = kRounds,
          .turns = "transfers",
          .host = host,
          .run = [=](Take& take) -> Status {
            ATOLL_ASSIGN(const double rate, transfer());
            take.Add(name, rate);
            return {};
          }};
}

void AddTransfers(const LabPtr& lab, Phases* phases) {
  const auto relay = [=](Result<double> (Relay::*transfer)(uint64_t)) -> Result<double> {
    ATOLL_ASSIGN(const double bytes, (lab->relay.get()->*transfer)(kTransfer));
    return bytes / (1 << 20);
  };
  const std::string what = "TCP to a process, a Unix socket to a second one, its file";
  phases->push_back(
      TransferPhase("relay: upload", what, true, {}, [=] { return relay(&Relay::Upload); }));
  phases->push_back(TransferPhase("upload", "128 MiB into a file of the sandbox", false,
                                  {{.at_least = 0.7, .over = "command/relay: upload"}},
                                  [=] { return UploadOnce(*lab, lab->busybox); }));
  phases->push_back(
      TransferPhase("relay: download", what, true, {}, [=] { return relay(&Relay::Download); }));
  phases->push_back(TransferPhase("download", "the file back", false,
                                  {{.at_least = 0.7, .over = "command/relay: download"}},
                                  [=] { return DownloadOnce(*lab, lab->busybox); }));
}

// 100 commands at once have no bound on time. Each one's output and exit code must be right.
void AddTogether(const LabPtr& lab, Phases* phases) {
  const std::string what = "all sent → all complete, each with an output and exit code of its own";
  phases->push_back(Timed({"100 at once", what, "ms", {}}, kRounds, 0, "",
                          [=] { return Together(*lab, lab->busybox); }));
  phases->push_back(Timed({"100 at once, 64 MiB", what + ", in a sandbox of 64 MiB", "ms", {}},
                          kRounds, 0, "", [=] { return Together(*lab, lab->small); }));
}

void AddExecd(const LabPtr& lab, const std::string& programs, Phases* phases) {
  const std::string execd = programs + "/atoll-execd";
  phases->push_back({.series = {{"execd: size", "stripped", "KiB", {{.at_most = 2048}}},
                                {"execd: own memory",
                                 "anonymous pages of process 1 after a command",
                                 "KiB",
                                 {{.at_most = 1024}}}},
                     .run = [=](Take& take) -> Status {
                       ATOLL_ASSIGN(const uint64_t bytes,
                                    StrippedSize(execd, lab->daemon->top() + "/stripped"));
                       take.Add("execd: size", static_cast<double>(bytes) / 1024);
                       ATOLL_ASSIGN(const auto places,
                                    FindSandboxes(lab->daemon->spawner(), lab->daemon->data_dir()));
                       uint64_t most = 0;
                       for (const Place& place : places) {
                         ATOLL_ASSIGN(const uint64_t kib, AnonymousKib(place.pid));
                         most = std::max(most, kib);
                       }
                       take.Add("execd: own memory", static_cast<double>(most));
                       return {};
                     }});
  phases->push_back(
      {.series = {{"atoll: start", "spawn of `atoll version` → its end", "ms", {{.at_most = 5}}}},
       .samples = kCount,
       .run = [=](Take& take) -> Status {
         const int64_t start = NowMicros();
         ATOLL_ASSIGN(const pid_t pid, Spawn({programs + "/atoll", "--version"}, -1, -1));
         ATOLL_TRY(Await(pid, "atoll --version"));
         take.AddMs("atoll: start", MicrosSince(start));
         return {};
       }});
  phases->push_back({.series = {{"execd: parked and ended",
                                 "spawned → it has found that nobody can claim it, and ended",
                                 "ms",
                                 {{.at_most = 1}}}},
                     .samples = 50,
                     .run = [=](Take& take) -> Status {
                       ATOLL_ASSIGN(const int64_t micros, ParkOnce(execd));
                       take.AddMs("execd: parked and ended", micros);
                       return {};
                     }});
}

// Measures the start and the end of a shell in namespaces of its own, over an overlay of one
// directory. `members` are further JSON members of the request.
void AddSession(const LabPtr& lab, const std::string& name, const std::string& members,
                Phases* phases) {
  phases->push_back(
      {.series = {{name + ": made", "request → 201, its shell can be used", "ms", {{.at_most = 5}}},
                  {name + ": ended", "DELETE → nothing of it is left", "ms", {}}},
       .samples = kCount,
       .warm_up = kWarmUp,
       .rest_ms = kRestMs,
       .run = [=](Take& take) -> Status {
         const std::string path = lab->busybox.execd_path + "/v1/isolated/session";
         int64_t start = NowMicros();
         ATOLL_ASSIGN(const std::string made,
                      lab->files->Call("POST", path,
                                       R"({"workspace":{"path":"/root/work"})" + members + "}"));
         take.AddMs(name + ": made", MicrosSince(start));
         constexpr std::string_view kName = R"("session_id":")";
         const size_t at = made.find(kName);
         if (at == std::string::npos) return Fail(Code::kInternal, made);
         const size_t id = at + kName.size();
         start = NowMicros();
         ATOLL_TRY(
             lab->files->Call("DELETE", path + "/" + made.substr(id, made.find('"', id) - id)));
         take.AddMs(name + ": ended", MicrosSince(start));
         return {};
       }});
}

}  // namespace

Phases CommandPhases(const Setting& setting) {
  const auto lab = std::make_shared<CommandLab>();
  Phases phases = {
      {.run = [=](Take&) -> Status {
        ATOLL_TRY(lab->Open(setting));
        // Forked before this process has threads.
        ATOLL_ASSIGN(lab->relay, Relay::Start(lab->daemon->top() + "/relay"));
        ATOLL_TRY(lab->api->ImportImage(kDebianImage, setting.debian));
        ATOLL_ASSIGN(lab->busybox, lab->Create(kBusyboxImage));
        ATOLL_ASSIGN(lab->debian, lab->Create(kDebianImage));
        ATOLL_ASSIGN(lab->small, lab->Create(kBusyboxImage, kSmall));
        ATOLL_ASSIGN(lab->files, lab->ClientOf(lab->busybox));
        return {};
      }},
      Quiet(lab),
  };
  AddCommands(lab, false, &phases);
  AddCommands(lab, true, &phases);
  AddFiles(lab, &phases);
  AddSession(lab, "isolated session", "", &phases);
  AddSession(lab, "isolated session, own users", R"(,"uid_mode":"userns")", &phases);
  AddTransfers(lab, &phases);
  AddTogether(lab, &phases);
  AddExecd(lab, setting.programs, &phases);
  return phases;
}

}  // namespace atl::bench
