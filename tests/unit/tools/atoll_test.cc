// The atoll program itself, against a server that the test plays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tests/unit/http/socket_peer.h"

namespace atl::cli {
namespace {

using http::Exchange;
using http::Response;
using nlohmann::json;
using testing::Test;

constexpr char kId[] = "0f8fad5b-d9cb-469f-a165-70867728950e";
constexpr char kOtherId[] = "0f8fffff-d9cb-469f-a165-70867728950e";

class Program {
 public:
  // Starts the built program. Its output goes to sockets, which can hold all of it.
  explicit Program(std::vector<std::string> arguments) : Program(std::move(arguments), Ends()) {}
  void Signal(int number) const { kill(pid_, number); }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Returns all output. Waits for the end of the program.
  std::string Out() { return out_text_ += out_.ReadToEnd(); }
  std::string Err() { return err_text_ += err_.ReadToEnd(); }
  void AwaitOut(const std::string& text) { out_text_ += out_.ReadUntil(text); }

 private:
  struct Ends {
    sys::SocketPair out = sys::UnixPair(SOCK_STREAM).value();
    sys::SocketPair err = sys::UnixPair(SOCK_STREAM).value();
  };
  Program(std::vector<std::string> arguments, Ends ends)
      : out_(std::move(ends.out.a)), err_(std::move(ends.err.a)) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends.out.b.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends.err.b.get(), STDERR_FILENO);
    // The caller of the test may ignore SIGINT, which the program would inherit.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    arguments.insert(arguments.begin(), "atoll");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const char* program = getenv("ATOLL_PROGRAM");
    EXPECT_EQ(posix_spawn(&pid_, program, &actions, &attributes, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  pid_t pid_ = -1;
  http::Peer out_;
  http::Peer err_;
  std::string out_text_;
  std::string err_text_;
};

struct Seen {
  std::string line;  // "GET /v1/…"
  http::Headers headers;
  std::string body;
};

Response Json(int status, const json& body) {
  return {status, {}, body.dump()};
}

// Plays the server. Records every request and answers from `answers_`, or with a default answer.
class AtollTest : public Test {
 protected:
  AtollTest()
      : server_([this](const std::shared_ptr<Exchange>& exchange) {
          exchange->ReadBody(1 << 20, [this, exchange](Result<std::string> body) {
            const auto& request = exchange->request();
            const std::string line = request.method + " " + request.target;
            {
              const std::lock_guard lock(mutex_);
              seen_.push_back({line, request.headers, body.value_or("")});
            }
            const auto found = answers_.find(line);
            if (found != answers_.end()) return exchange->Respond(found->second);
            if (!stream_to_.empty() && line == CommandLine()) return Stream(exchange);
            exchange->Respond({404, {}, R"({"code":"X::NOT_FOUND","message":"no such thing"})"});
          });
        }) {
    unsetenv("ATOLL_API_KEY");
    unsetenv("ATOLL_RUN_DIR");
    setenv("ATOLL_SERVER", ("http://127.0.0.1:" + std::to_string(server_.port())).c_str(), 1);
    answers_["POST /v1/sandboxes"] = Json(202, {{"id", kId}});
    answers_["GET /v1/sandboxes?pageSize=200&page=1"] =
        Json(200, {{"items", json::array()}, {"pagination", {{"hasNextPage", false}}}});
    answers_[std::string("GET /v1/sandboxes/") + kId + "/endpoints/44772?use_server_proxy=true"] =
        Json(200, {{"endpoint", "x"}, {"headers", {{"X-EXECD-ACCESS-TOKEN", "token"}}}});
    answers_[std::string("DELETE /v1/sandboxes/") + kId] = {204, {}, ""};
  }

  static std::string CommandLine() {
    return std::string("POST /v1/sandboxes/") + kId + "/proxy/44772/command?encoding=base64";
  }
  void AnswerCommand(const std::string& events) { answers_[CommandLine()] = {200, {}, events}; }
  void Stream(const std::shared_ptr<Exchange>& exchange) {
    // The body has been read, so the forwarded request has none.
    http::Upstream to;
    to.socket_path = stream_to_;
    to.target = "/command";
    to.drop_headers = {"content-length"};
    exchange->Forward(std::move(to));
  }
  std::vector<Seen> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  Seen SeenOnce(const std::string& line) {
    Seen found;
    int count = 0;
    for (const Seen& one : seen()) {
      if (one.line != line) continue;
      found = one;
      ++count;
    }
    EXPECT_EQ(count, 1) << line;
    return found;
  }

  std::mutex mutex_;
  std::vector<Seen> seen_;
  std::map<std::string, Response> answers_;
  std::string stream_to_;
  http::RunningServer server_;
};

TEST_F(AtollTest, RunCreatesRunsAndDeletes) {
  AnswerCommand(
      "{\"type\":\"init\",\"text\":\"id\"}\n\n{\"type\":\"stdout\",\"text\":\"out\"}\n\n"
      "{\"type\":\"stderr\",\"text\":\"err\"}\n\n"
      "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"7\"}}\n\n");
  const std::string directories =
      std::string("POST /v1/sandboxes/") + kId + "/proxy/44772/v1/filesystem/0/0/directories";
  answers_[directories] = {200, {}, ""};
  Program run({"--api-key", "key",    "run", "-e",         "A=[1,2]", "-m",        "64Mi", "--cpu",
               "500m",      "--name", "n",   "--metadata", "k=v",     "--timeout", "120",  "-w",
               "/tmp",      "img:1",  "--",  "echo",       "it's",    "[1,2]",     "--"});
  EXPECT_EQ(run.Wait(), 7) << run.Err();
  EXPECT_EQ(run.Out(), "out\n");
  EXPECT_EQ(run.Err(), "err\n");
  const Seen created = SeenOnce("POST /v1/sandboxes");
  EXPECT_EQ(created.headers.Get("open-sandbox-api-key"), "key");
  EXPECT_EQ(json::parse(created.body),
            (json{{"image", {{"uri", "img:1"}}},
                  {"extensions", {{"entrypoint", "none"}, {"uniqueName", "true"}}},
                  {"env", {{"A", "[1,2]"}}},
                  {"resourceLimits", {{"memory", "64Mi"}, {"cpu", "500m"}}},
                  {"metadata", {{"name", "n"}, {"k", "v"}}},
                  {"timeout", 120}}));
  EXPECT_EQ(json::parse(SeenOnce(directories).body), (json{{"/tmp", json::object()}}));
  const Seen command = SeenOnce(CommandLine());
  EXPECT_EQ(command.headers.Get("x-execd-access-token"), "token");
  EXPECT_EQ(json::parse(command.body),
            (json{{"argv", {"echo", "it's", "[1,2]", "--"}}, {"cwd", "/tmp"}}));
  SeenOnce(std::string("DELETE /v1/sandboxes/") + kId);
}

TEST_F(AtollTest, RunKeepsTheSandboxIfAskedTo) {
  AnswerCommand("{\"type\":\"execution_complete\"}\n\n");
  Program run({"run", "--keep", "img", "--", "true"});
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_NE(run.Err().find(std::string("atoll rm ") + kId), std::string::npos);
  EXPECT_EQ(seen().back().line, CommandLine());
}

TEST_F(AtollTest, RunFailsWith125AndDeletesWhatItMade) {
  AnswerCommand("{\"type\":\"init\",\"text\":\"id\"}\n\n");
  Program broken({"run", "img", "--", "true"});
  EXPECT_EQ(broken.Wait(), 125);
  EXPECT_NE(broken.Err().find("before the command ended"), std::string::npos);
  SeenOnce(std::string("DELETE /v1/sandboxes/") + kId);

  answers_["POST /v1/sandboxes"] =
      Json(404, {{"code", "DOCKER::NO"}, {"message", "image \x1b[31m is not here"}});
  Program refused({"run", "img", "--", "true"});
  EXPECT_EQ(refused.Wait(), 125);
  EXPECT_EQ(refused.Err(), "atoll: image ?[31m is not here (DOCKER::NO)\n");
}

TEST_F(AtollTest, InterruptedRunDeletesItsSandbox) {
  http::UnixListener execd;
  stream_to_ = execd.path();
  Program run({"run", "img", "--", "sleep", "100"});
  http::Peer peer = execd.Accept();
  peer.ReadUntil("\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\n\r\n{\"type\":\"init\",\"text\":\"c\"}\n\n");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 128 + SIGINT);
  EXPECT_EQ(peer.ReadToEnd(), "");
  SeenOnce(std::string("DELETE /v1/sandboxes/") + kId);
}

TEST_F(AtollTest, InterruptedExecStopsItsCommandOnly) {
  http::UnixListener execd;
  stream_to_ = execd.path();
  const std::string stop =
      std::string("DELETE /v1/sandboxes/") + kId + "/proxy/44772/command?id=c0de";
  answers_[stop] = {200, {}, ""};
  Program exec({"exec", kId, "--", "sleep", "100"});
  http::Peer peer = execd.Accept();
  peer.ReadUntil("\r\n\r\n");
  peer.Send(
      "HTTP/1.1 200 OK\r\n\r\n{\"type\":\"init\",\"text\":\"c0de\"}\n\n"
      "{\"type\":\"stdout\",\"text\":\"started\"}\n\n");
  exec.AwaitOut("started\n");
  exec.Signal(SIGTERM);
  EXPECT_EQ(exec.Wait(), 128 + SIGTERM);
  EXPECT_EQ(SeenOnce(stop).headers.Get("x-execd-access-token"), "token");
  EXPECT_EQ(seen().back().line, stop);
}

class ListedTest : public AtollTest {
 protected:
  ListedTest() {
    const auto sandbox = [](const char* id, const char* name) {
      return json{{"id", id},
                  {"image", {{"uri", "img"}}},
                  {"status", {{"state", "Running"}}},
                  {"metadata", {{"name", name}}},
                  {"createdAt", "2026-11-21T12:00:00.000001Z"}};
    };
    answers_["GET /v1/sandboxes?pageSize=200&page=1"] =
        Json(200, {{"items", {sandbox(kId, "one\x1b")}}, {"pagination", {{"hasNextPage", true}}}});
    answers_["GET /v1/sandboxes?pageSize=200&page=2"] = Json(
        200, {{"items", {sandbox(kOtherId, "two")}}, {"pagination", {{"hasNextPage", false}}}});
    answers_[std::string("DELETE /v1/sandboxes/") + kOtherId] = {204, {}, ""};
  }
};

TEST_F(ListedTest, LsShowsAllPages) {
  Program ls({"ls"});
  EXPECT_EQ(ls.Wait(), 0) << ls.Err();
  EXPECT_NE(ls.Out().find(std::string(kId) + "  one?  img    Running"), std::string::npos)
      << ls.Out();
  EXPECT_NE(ls.Out().find(kOtherId), std::string::npos);
  Program list({"ps", "--json"});
  EXPECT_EQ(list.Wait(), 0);
  EXPECT_EQ(json::parse(list.Out())["items"].size(), 2U);
  Program quiet({"ls", "-q"});
  EXPECT_EQ(quiet.Wait(), 0);
  EXPECT_EQ(quiet.Out(), std::string(kId) + "\n" + kOtherId + "\n");
}

TEST_F(ListedTest, RmTakesNamesAndUnambiguousStarts) {
  Program by_start({"rm", "0f8ff"});
  EXPECT_EQ(by_start.Wait(), 0) << by_start.Err();
  Program by_name({"rm", "two"});
  EXPECT_EQ(by_name.Wait(), 0) << by_name.Err();
  Program ambiguous({"rm", "0f8f"});
  EXPECT_EQ(ambiguous.Wait(), 2);
  EXPECT_NE(ambiguous.Err().find("give more of the id"), std::string::npos);
  Program unknown({"rm", "nobody", "two"});
  EXPECT_EQ(unknown.Wait(), 2);
  EXPECT_EQ(unknown.Out(), std::string(kOtherId) + "\n");
}

TEST_F(AtollTest, ImportSendsTheFile) {
  answers_["POST /v1/images?name=py%3A3.11"] =
      Json(201, {{"name", "py:3.11"}, {"digest", "sha256:1"}, {"sizeBytes", 2048}});
  char path[] = "/tmp/atoll-import-XXXXXX";
  const UniqueFd file(mkostemp(path, O_CLOEXEC));
  ASSERT_TRUE(sys::WriteAll(file.get(), "archive").has_value());
  Program import({"image", "import", path, "--name", "py:3.11"});
  EXPECT_EQ(import.Wait(), 0) << import.Err();
  EXPECT_EQ(import.Out(), "imported py:3.11 (sha256:1, 2.0 KiB)\n");
  EXPECT_EQ(SeenOnce("POST /v1/images?name=py%3A3.11").body, "archive");
  unlink(path);
}

TEST_F(AtollTest, FindsTheLocalDaemonAndItsKeyButNeverSendsItElsewhere) {
  char dir[] = "/tmp/atoll-run-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  const std::string url = getenv("ATOLL_SERVER");
  const std::string key_file = std::string(dir) + "/key";
  auto run_dir = sys::Open(dir, O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(run_dir.has_value());
  const json daemon = {{"url", url}, {"key_file", key_file}};
  ASSERT_TRUE(sys::ReplaceFileAt(run_dir->get(), "daemon.json", daemon.dump(), 0644).has_value());
  ASSERT_TRUE(sys::ReplaceFileAt(run_dir->get(), "key", "local-key\n", 0600).has_value());
  answers_["POST /v1/shutdown?all=true"] = Json(200, {{"status", "stopping"}});

  unsetenv("ATOLL_SERVER");
  Program local({"--run-dir", dir, "shutdown", "--all"});
  EXPECT_EQ(local.Wait(), 0) << local.Err();
  EXPECT_EQ(seen().back().headers.Get("open-sandbox-api-key"), "local-key");
  Program remote({"--run-dir", dir, "--server", url, "shutdown", "--all"});
  EXPECT_EQ(remote.Wait(), 0) << remote.Err();
  EXPECT_FALSE(seen().back().headers.Has("open-sandbox-api-key"));
  Program nobody({"--run-dir", "/nonexistent", "ls"});
  EXPECT_EQ(nobody.Wait(), 1);
  EXPECT_NE(nobody.Err().find("start atolld"), std::string::npos);
  for (const char* name : {"/key", "/daemon.json", ""}) remove((std::string(dir) + name).c_str());
}

TEST_F(AtollTest, UsageErrorsAre2AndHelpIs0) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nonsense"},
      {"run"},
      {"run", "--", "true"},
      {"run", "--nonsense", "img"},
      {"image"},
      {"image", "nonsense"},
      {"run", "--timeout", "5", "img", "--", "true"},
      {"ls", "--", "x"}};
  for (const auto& arguments : wrong) {
    Program program(arguments);
    EXPECT_EQ(program.Wait(), 2) << (arguments.empty() ? "" : arguments[0]);
  }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"version"}}) {
    Program program(arguments);
    EXPECT_EQ(program.Wait(), 0);
    EXPECT_NE(program.Out(), "");
  }
  EXPECT_TRUE(seen().empty());
}

}  // namespace
}  // namespace atl::cli
