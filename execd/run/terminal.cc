#include "execd/run/terminal.h"

#include <cerrno>
#include <charconv>
#include <optional>

#include "execd/http/request_json.h"
#include "execd/run/command_request.h"
#include "execd/run/terminal_process.h"
#include "runtime/http/websocket.h"

namespace atl::execd {
namespace {

using http::Opcode;
using http::WebSocketReader;

constexpr int64_t kTerminalPingUs = 30'000'000;
constexpr int64_t kSilenceUs = 60'000'000;
constexpr size_t kRing = 1 << 20;
constexpr size_t kMaxFrame = 32 << 10, kMaxMessage = 1 << 20;
constexpr size_t kInputHigh = 64 << 10;
constexpr char kStdin = 0, kStdout = 1, kStderr = 2, kReplay = 3;
constexpr uint16_t kNormal = 1000, kProtocolError = 1002, kTooBig = 1009, kTakenOver = 4001;

// Parses the body of POST /pty, and checks that the directory exists.
Result<TerminalProcess::Program> ReadProgram(Core& core, std::string body) {
  ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(body), true));
  ATOLL_ASSIGN(const auto ids, IdsMember(document.root()));
  TerminalProcess::Program program{.identity = core.user};
  if (ids) {
    ATOLL_ASSIGN(program.identity, ResolveIds(*ids));
  }
  ATOLL_ASSIGN(program.command, TextMember(document.root(), "command"));
  ATOLL_ASSIGN(program.argv, ArgvMember(document.root()));
  if (!program.argv.empty() && !program.command.empty()) {
    return Fail(Code::kInvalidArgument, "send one of command and argv");
  }
  ATOLL_ASSIGN(program.envs, EnvsMember(document.root()));
  ATOLL_ASSIGN(const std::string cwd, TextMember(document.root(), "cwd"));
  if (cwd.empty()) return program;
  ATOLL_ASSIGN(program.cwd, ExpandPath(cwd, core.env, core.Home(program.identity)));
  if (auto opened = OpenDirectory(program.cwd, program.identity); !opened) {
    return Fail(std::move(opened).error().Wrap("cwd '" + cwd + "'"));
  }
  return program;
}

}  // namespace

// The WebSocket of one client.
class Attachment : public std::enable_shared_from_this<Attachment>, private WebSocketReader::Sink {
 public:
  Attachment(Core* core, std::shared_ptr<Exchange> exchange, std::weak_ptr<Terminal> terminal)
      : core_(*core), exchange_(std::move(exchange)), terminal_(std::move(terminal)) {}
  void Begin(const std::string& handshake);
  void Output(char channel, std::string_view bytes);
  void Replay(uint64_t offset, std::string_view bytes);
  void SendText(std::string_view json) { SendFrame(Opcode::kText, json); }
  void SendError(std::string_view code, std::string_view message);
  void Close(uint16_t code, std::string_view reason);
  bool full() const { return exchange_->backlog() > Exchange::kHighWater; }
  void PauseInput() { exchange_->PauseBody(); }
  void ResumeInput() { exchange_->ResumeBody(); }

 private:
  void OnMessage(bool text, std::string_view message) override;
  void OnPing(std::string_view payload) override { SendFrame(Opcode::kPong, payload); }
  void OnPong() override {}
  void OnClose(uint16_t) override { Close(kNormal, {}); }
  void OnTextMessage(std::string_view message);
  void SendFrame(Opcode opcode, std::string_view first, std::string_view second = {});
  void Ping();
  void Gone();

  Core& core_;
  std::shared_ptr<Exchange> exchange_;
  std::weak_ptr<Terminal> terminal_;
  WebSocketReader reader_{WebSocketReader::From::kClient, kMaxMessage};
  std::string frame_;
  EventLoop::Id ping_ = 0;
  int64_t heard_us_ = 0;
  bool closed_ = false;
};

class Terminal : public std::enable_shared_from_this<Terminal> {
 public:
  Terminal(Core* core, std::string id, TerminalProcess::Program program, UniqueFd master)
      : core_(*core),
        id_(std::move(id)),
        program_(std::move(program)),
        master_(std::move(master)) {}

  const std::string& id() const { return id_; }
  bool running() const { return process_ != nullptr; }
  uint64_t output_offset() const { return ring_.end(); }
  bool attached() const { return client_ != nullptr; }
  void Attach(const std::shared_ptr<Exchange>& exchange, const std::string& handshake, bool pty,
              uint64_t since);
  void TakeOver();
  void End();

  // Input of the client.
  void Input(std::string_view bytes);
  void EndInput() {
    if (process_) process_->EndInput();
  }
  void Resize(int columns, int rows) {
    if (process_) process_->Resize(columns, rows);
  }
  void Signal(int signal) {
    if (process_) process_->Signal(signal);
  }
  void Detached(const Attachment* client);
  void ClientWritable() {
    if (process_) process_->ResumeOutput();
  }

 private:
  Status StartProcess(bool pty);
  void OnOutput(bool is_stderr, std::string_view bytes);
  void OnExit(const JobExit& exit);
  // Sends the exit to the client, as the last message.
  void TellExit(const JobExit& exit);

  Core& core_;
  const std::string id_;
  const TerminalProcess::Program program_;
  UniqueFd master_;  // the pseudo-terminal, until the first process takes it
  OutputRing ring_{kRing};
  std::unique_ptr<TerminalProcess> process_;
  // Exit of a program that the client named. Only a shell is started again for the next client;
  // later clients of another program get its exit.
  std::optional<JobExit> ended_;
  bool pty_ = true;
  std::shared_ptr<Attachment> client_;
};

void Attachment::Begin(const std::string& handshake) {
  exchange_->SwitchProtocol(handshake);
  const auto self = shared_from_this();
  exchange_->StreamBody(
      [self](std::string_view bytes) {
        self->heard_us_ = self->core_.loop.now_us();
        const Status fed = self->reader_.Feed(bytes, self.get());
        if (!fed) {
          self->SendError("INVALID_FRAME", fed.error().message());
          self->Close(fed.error().code() == Code::kResourceExhausted ? kTooBig : kProtocolError,
                      fed.error().message());
        }
      },
      [self] { self->Close(kNormal, {}); });
  exchange_->OnClosed([self] { self->Gone(); });
  exchange_->OnWritable([self] {
    if (const auto terminal = self->terminal_.lock()) terminal->ClientWritable();
  });
  heard_us_ = core_.loop.now_us();
  ping_ = core_.loop.After(kTerminalPingUs, [this] { Ping(); });
}

void Attachment::Ping() {
  ping_ = 0;
  if (core_.loop.now_us() - heard_us_ > kSilenceUs) {
    Close(kNormal, "no sign of life for 60 s");
    return;
  }
  SendFrame(Opcode::kPing, {});
  ping_ = core_.loop.After(kTerminalPingUs, [this] { Ping(); });
}

void Attachment::SendFrame(Opcode opcode, std::string_view first, std::string_view second) {
  if (closed_) return;
  frame_.clear();
  AppendFrame(&frame_, opcode, first, second);
  exchange_->Write(frame_);
}

void Attachment::Output(char channel, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMaxFrame);
    SendFrame(Opcode::kBinary, {&channel, 1}, part);
    bytes.remove_prefix(part.size());
  }
}

void Attachment::Replay(uint64_t offset, std::string_view bytes) {
  if (bytes.empty()) return;
  char head[9] = {kReplay};
  for (int i = 0; i < 8; ++i) head[1 + i] = static_cast<char>(offset >> (56 - 8 * i));
  SendFrame(Opcode::kBinary, {head, sizeof head}, bytes);
}

void Attachment::SendError(std::string_view code, std::string_view message) {
  std::string json = "{\"type\":\"error\",\"code\":";
  AppendJsonString(&json, code);
  json.append(",\"error\":");
  AppendJsonString(&json, message);
  json.push_back('}');
  SendText(json);
}

void Attachment::Close(uint16_t code, std::string_view reason) {
  if (closed_) return;
  frame_.clear();
  http::AppendCloseFrame(&frame_, code, reason);
  exchange_->Write(frame_);
  exchange_->Finish();
  Gone();
}

void Attachment::Gone() {
  if (closed_) return;
  closed_ = true;
  core_.loop.Cancel(ping_);
  if (const auto terminal = terminal_.lock()) terminal->Detached(this);
}

void Attachment::OnMessage(bool text, std::string_view message) {
  const auto terminal = terminal_.lock();
  if (!terminal) return;
  if (text) {
    OnTextMessage(message);
  } else if (!message.empty() && message[0] == kStdin) {
    terminal->Input(message.substr(1));
  } else {
    SendError("INVALID_FRAME", "unknown binary frame");
  }
}

void Attachment::OnTextMessage(std::string_view message) {
  const auto terminal = terminal_.lock();
  const auto document = JsonDocument::Parse(std::string(message));
  if (!document || !terminal) {
    SendError("INVALID_FRAME", document ? "terminal is gone" : document.error().message());
    return;
  }
  const JsonValue root = document->root();
  const std::string_view type = root.Find("type").text();
  if (type == "stdin") {
    terminal->Input(root.Find("data").text());
  } else if (type == "eof") {
    terminal->EndInput();
  } else if (type == "resize") {
    const auto columns = IntegerMember(root, "cols", 1, 65535, 0);
    const auto rows = IntegerMember(root, "rows", 1, 65535, 0);
    if (columns && rows && *columns > 0 && *rows > 0) {
      terminal->Resize(static_cast<int>(*columns), static_cast<int>(*rows));
    } else {
      SendError("INVALID_FRAME", "resize: cols and rows must be from 1 to 65535");
    }
  } else if (type == "signal") {
    const int signal = TerminalSignal(root.Find("signal").text());
    if (signal != 0) {
      terminal->Signal(signal);
    } else {
      SendError("INVALID_FRAME", "signal: use SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP");
    }
  } else if (type == "ping") {
    SendText("{\"type\":\"pong\"}");
  } else {
    SendError("INVALID_FRAME", "unknown type");
  }
}

Status Terminal::StartProcess(bool pty) {
  TerminalProcess::Callbacks callbacks;
  callbacks.output = [this](bool is_stderr, std::string_view bytes) { OnOutput(is_stderr, bytes); };
  callbacks.exit = [this](const JobExit& exit) { OnExit(exit); };
  callbacks.input_drained = [this] {
    if (client_) client_->ResumeInput();
  };
  UniqueFd master = std::move(master_);
  if (!pty) {
    master.reset();
  } else if (!master) {
    ATOLL_ASSIGN(master, TerminalProcess::OpenMaster(program_.identity));
  }
  ATOLL_ASSIGN(process_,
               TerminalProcess::Start(&core_, program_, std::move(master), std::move(callbacks)));
  pty_ = pty;
  return {};
}

void Terminal::Attach(const std::shared_ptr<Exchange>& exchange, const std::string& handshake,
                      bool pty, uint64_t since) {
  client_ = std::make_shared<Attachment>(&core_, exchange, weak_from_this());
  client_->Begin(handshake);
  if (!process_ && !ended_) {
    if (const Status started = StartProcess(pty); !started) {
      client_->SendError("START_FAILED", started.error().message());
      client_->Close(kNormal, "start failed");
      return;
    }
  }
  client_->Replay(std::max(since, ring_.begin()), ring_.From(since));
  std::string json = "{\"type\":\"connected\",\"session_id\":";
  AppendJsonString(&json, id_);
  json.append(pty_ ? ",\"mode\":\"pty\"}" : ",\"mode\":\"pipe\"}");
  client_->SendText(json);
  if (ended_) TellExit(*ended_);
}

void Terminal::TakeOver() {
  const auto old = client_;
  if (!old) return;
  old->SendError("TAKEN_OVER", "another client has taken this terminal over");
  old->Close(kTakenOver, "taken over");
}

void Terminal::End() {
  process_.reset();
  const auto client = client_;
  if (!client) return;
  client->SendError("SESSION_GONE", "the terminal has been deleted");
  client->Close(kNormal, "deleted");
}

void Terminal::Input(std::string_view bytes) {
  if (!process_) return;
  if (!process_->Write(bytes) && client_) {
    client_->SendError("STDIN_WRITE_FAILED", "the terminal's input is closed");
  }
  if (process_->pending_input() > kInputHigh && client_) client_->PauseInput();
}

void Terminal::OnOutput(bool is_stderr, std::string_view bytes) {
  ring_.Append(bytes);
  if (!client_) return;
  client_->Output(is_stderr ? kStderr : kStdout, bytes);
  // A client that does not read pauses the terminal. Without a client the ring overwrites its
  // oldest output.
  if (client_->full()) process_->PauseOutput();
}

void Terminal::OnExit(const JobExit& exit) {
  // Destroyed after this turn, because the process is the caller.
  const std::shared_ptr<TerminalProcess> last(std::move(process_));
  core_.loop.Post([last] {});
  if (!program_.argv.empty() || !program_.command.empty()) ended_ = exit;
  if (client_) TellExit(exit);
}

void Terminal::TellExit(const JobExit& exit) {
  std::string json = "{\"type\":\"exit\",\"exit_code\":";
  AppendJsonInteger(&json, exit.code);
  // Members besides upstream's: the meaning of -1, and the limit that was hit.
  if (exit.signal != 0 || exit.lost_to_memory || exit.fork_refused) {
    json.append(",\"error\":");
    AppendJsonString(&json, exit.Describe());
  }
  json.push_back('}');
  const auto client = client_;
  client->SendText(json);
  client->Close(kNormal, "exited");
}

void Terminal::Detached(const Attachment* client) {
  if (client_.get() != client) return;
  client_.reset();
  if (process_) process_->ResumeOutput();
}

Terminals::Terminals(Core* core) : core_(*core) {}
Terminals::~Terminals() = default;

std::shared_ptr<Terminal> Terminals::Find(const std::shared_ptr<Exchange>& exchange) {
  const auto found = terminals_.find(exchange->parameters[0]);
  if (found != terminals_.end()) return found->second;
  exchange->RespondError(404, "CONTEXT_NOT_FOUND",
                         "no terminal with id '" + exchange->parameters[0] + "'");
  return nullptr;
}

void Terminals::Create(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    auto program = ReadProgram(core_, std::move(body));
    if (!program) {
      x->RespondError(400, "INVALID_REQUEST_BODY", program.error().message());
      return;
    }
    if (terminals_.size() >= kMaxTerminals) {
      x->RespondError(500, "RUNTIME_ERROR",
                      "64 terminals are open: delete some that are not needed");
      return;
    }
    // Opens the pseudo-terminal now, not when a client attaches, so that "created" guarantees a
    // terminal.
    auto master = TerminalProcess::OpenMaster(program->identity);
    if (!master) {
      const bool full = master.error().error_number() == ENOSPC;
      x->RespondError(500, "RUNTIME_ERROR",
                      full ? "the sandbox has no pseudo-terminal left: end programs that hold some"
                           : "no pseudo-terminal: " + master.error().message());
      return;
    }
    auto terminal =
        std::make_shared<Terminal>(&core_, NewUuid(true), *std::move(program), *std::move(master));
    std::string answer = "{\"session_id\":";
    AppendJsonString(&answer, terminal->id());
    answer.push_back('}');
    terminals_.emplace(terminal->id(), terminal);
    x->RespondJson(201, answer);
  });
}

void Terminals::Get(const std::shared_ptr<Exchange>& exchange) {
  const auto terminal = Find(exchange);
  if (!terminal) return;
  std::string body = "{\"session_id\":";
  AppendJsonString(&body, terminal->id());
  body.append(terminal->running() ? ",\"running\":true" : ",\"running\":false");
  body.append(",\"output_offset\":");
  AppendJsonInteger(&body, static_cast<int64_t>(terminal->output_offset()));
  body.push_back('}');
  exchange->RespondJson(200, body);
}

void Terminals::Delete(const std::shared_ptr<Exchange>& exchange) {
  const auto terminal = Find(exchange);
  if (!terminal) return;
  terminals_.erase(terminal->id());
  terminal->End();
  exchange->RespondEmpty();
}

void Terminals::Attach(const std::shared_ptr<Exchange>& exchange) {
  const auto terminal = Find(exchange);
  if (!terminal) return;
  const auto handshake = http::WebSocketHandshake(exchange->head());
  if (!handshake) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY", handshake.error().message());
    return;
  }
  const std::string* takeover = exchange->QueryValue("takeover");
  if (terminal->attached()) {
    if (!takeover || *takeover != "1") {
      exchange->RespondError(409, "ALREADY_CONNECTED",
                             "another client is attached: use takeover=1 to replace it");
      return;
    }
    terminal->TakeOver();
  }
  const std::string* pty = exchange->QueryValue("pty");
  uint64_t since = 0;
  if (const std::string* text = exchange->QueryValue("since")) {
    std::from_chars(text->data(), text->data() + text->size(), since);
  }
  terminal->Attach(exchange, *handshake, !(pty && *pty == "0"), since);
}

}  // namespace atl::execd
