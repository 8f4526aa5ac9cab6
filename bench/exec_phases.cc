#include "bench/exec_phases.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <thread>
#include <vector>

#include "bench/host_view.h"
#include "bench/lean_client.h"
#include "bench/process.h"
#include "runtime/base/sys.h"
#include "runtime/wire/start.h"

namespace atl::bench {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr size_t kBlock = 64 << 10;
constexpr int kCallsInARow = 300;
constexpr char kBoundary[] = "atoll-bench";
constexpr char kMultipart[] = "Content-Type: multipart/form-data; boundary=atoll-bench\r\n";

// What comes before and after the content of an upload of one file.
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

Result<LeanClient> ClientOf(const OwnDaemon& daemon, const Sandbox& sandbox) {
  return LeanClient::Connect(daemon.port(), sandbox.command_headers);
}

// Its "Anonymous:" line; pages of its program belong to all sandboxes together.
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

// It parks, finds that nobody is left who could claim it, and ends: all of that is in the time.
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
  return NowMicros() - start;
}

// Sends a request's head and returns the socket.
Result<UniqueFd> Ask(const OwnDaemon& daemon, const Sandbox& sandbox, const std::string& line,
                     const std::string& headers) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectLoopback(daemon.port()));
  const std::string head = line + " HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n" +
                           sandbox.command_headers + headers + "\r\n";
  ATOLL_TRY(sys::WriteAll(socket.get(), head));
  return socket;
}

// Reads the head of an answer; what came of the body with it is counted in `extra`.
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

Result<double> UploadOnce(const OwnDaemon& daemon, const Sandbox& sandbox, uint64_t size) {
  const std::string before = BeforeContent("/root/transfer"), after = AfterContent();
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(
      const UniqueFd socket,
      Ask(daemon, sandbox, "POST " + sandbox.execd_path + "/files/upload",
          kMultipart +
              ("Content-Length: " + std::to_string(before.size() + size + after.size()) + "\r\n")));
  ATOLL_TRY(sys::WriteAll(socket.get(), before));
  ATOLL_TRY(SendBytes(socket.get(), size));
  ATOLL_TRY(sys::WriteAll(socket.get(), after));
  uint64_t extra = 0;
  ATOLL_TRY(TakeHead(socket.get(), &extra));
  return static_cast<double>(size) * 1e6 / static_cast<double>(NowMicros() - start);
}

Result<double> DownloadOnce(const OwnDaemon& daemon, const Sandbox& sandbox, uint64_t size) {
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(const UniqueFd socket,
               Ask(daemon, sandbox,
                   "GET " + sandbox.execd_path + "/files/download?path=/root/transfer", ""));
  uint64_t extra = 0;
  ATOLL_TRY(TakeHead(socket.get(), &extra));
  ATOLL_TRY(TakeBytes(socket.get(), size - extra));
  return static_cast<double>(size) * 1e6 / static_cast<double>(NowMicros() - start);
}

Status RunOne(const OwnDaemon& daemon, const Sandbox& sandbox, int number) {
  ATOLL_ASSIGN(LeanClient client, ClientOf(daemon, sandbox));
  const std::string digits = std::to_string(number);
  ATOLL_ASSIGN(const std::string events,
               client.Call("POST", sandbox.command_path,
                           R"({"command":"echo out)" + digits + "; exit " + digits + R"("})"));
  const std::string end =
      number == 0 ? R"("type":"execution_complete")" : R"("evalue":")" + digits + R"(")";
  if (events.find(R"("text":"out)" + digits + R"(\n")") == std::string::npos ||
      events.find(end) == std::string::npos) {
    return Fail(Code::kInternal, "command " + digits + ": " + events);
  }
  return {};
}

void AddRate(Samples* samples, double bytes_a_second) {
  // Samples hold thousandths of what they are given.
  samples->AddMicros(static_cast<int64_t>(bytes_a_second / kMib * 1000));
}

}  // namespace

Result<ProgramResults> MeasureProgram(const OwnDaemon& daemon, const std::string& execd) {
  ProgramResults results;
  ATOLL_ASSIGN(results.stripped_bytes, StrippedSize(execd, daemon.top() + "/stripped"));
  ATOLL_ASSIGN(const auto places, FindSandboxes(daemon.spawner(), daemon.data_dir()));
  for (const Place& place : places) {
    ATOLL_ASSIGN(const uint64_t kib, AnonymousKib(place.pid));
    results.idle_kib = std::max(results.idle_kib, kib);
  }
  for (int i = 0; i < 50; ++i) {
    ATOLL_ASSIGN(const int64_t micros, ParkOnce(execd));
    results.parked.AddMicros(micros);
  }
  return results;
}

Result<FileResults> MeasureFiles(const OwnDaemon& daemon, const Sandbox& sandbox, int count) {
  FileResults results;
  ATOLL_ASSIGN(LeanClient client, ClientOf(daemon, sandbox));
  const std::string path = "/root/block";
  const std::string body = BeforeContent(path) + std::string(kBlock, 'x') + AfterContent();
  for (int i = 0; i < count; ++i) {
    int64_t start = NowMicros();
    ATOLL_TRY(client.Call("POST", sandbox.execd_path + "/files/upload", body, kMultipart));
    results.write.AddSince(start);
    start = NowMicros();
    ATOLL_ASSIGN(const std::string content,
                 client.Call("GET", sandbox.execd_path + "/files/download?path=" + path));
    results.read.AddSince(start);
    if (content.size() != kBlock) return Fail(Code::kInternal, "64 KiB did not come back");
    Rest(2);
  }
  for (int round = 0; round < 11; ++round) {
    const int64_t start = NowMicros();
    for (int i = 0; i < kCallsInARow; ++i) {
      ATOLL_TRY(client.Call("GET", sandbox.execd_path + "/files/info?path=" + path));
    }
    results.calls_a_second.AddMicros(kCallsInARow * 1'000'000 / (NowMicros() - start));
  }
  return results;
}

Result<TransferResults> MeasureTransfers(const OwnDaemon& daemon, Relay& relay,
                                         const Sandbox& sandbox, uint64_t size, int rounds) {
  TransferResults results;
  for (int round = 0; round < rounds; ++round) {
    ATOLL_ASSIGN(const double relay_up, relay.Upload(size));
    ATOLL_ASSIGN(const double up, UploadOnce(daemon, sandbox, size));
    ATOLL_ASSIGN(const double relay_down, relay.Download(size));
    ATOLL_ASSIGN(const double down, DownloadOnce(daemon, sandbox, size));
    AddRate(&results.relay_up, relay_up);
    AddRate(&results.up, up);
    AddRate(&results.relay_down, relay_down);
    AddRate(&results.down, down);
  }
  return results;
}

Result<Samples> MeasureCommandsAtOnce(const OwnDaemon& daemon, const Sandbox& sandbox, int commands,
                                      int rounds) {
  Samples wall;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Status> outcomes(static_cast<size_t>(commands));
    std::vector<std::thread> threads;
    const int64_t start = NowMicros();
    for (int i = 0; i < commands; ++i) {
      threads.emplace_back(
          [&, i] { outcomes[static_cast<size_t>(i)] = RunOne(daemon, sandbox, i); });
    }
    for (std::thread& thread : threads) thread.join();
    wall.AddSince(start);
    for (Status& outcome : outcomes) ATOLL_TRY(std::move(outcome));
  }
  return wall;
}

}  // namespace atl::bench
