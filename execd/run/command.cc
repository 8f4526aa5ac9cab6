#include "execd/run/command.h"

#include <time.h>

#include <algorithm>
#include <charconv>

#include "execd/http/json.h"
#include "execd/http/request_json.h"
#include "execd/run/notebook_probe.h"
#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

constexpr const char* kInvalidBody = "INVALID_REQUEST_BODY";

std::string JsonListText(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) {
    if (text.size() > 1) text.push_back(',');
    AppendJsonString(&text, item);
  }
  return text + "]";
}

timespec RealTime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

}  // namespace

// Streams one command to its exchange. Lives as long as the command's program runs, even if the
// client disconnects.
class Commands::Foreground {
 public:
  Foreground(Commands* commands, std::shared_ptr<Record> record, std::shared_ptr<Exchange> exchange,
             OutputForm form)
      : commands_(*commands),
        record_(std::move(record)),
        exchange_(std::move(exchange)),
        out_events_("stdout", form),
        err_events_("stderr", form) {}

  // Starts the command. After success, the callback of the record's job keeps the object, and so
  // the pipes, alive.
  static void Start(const std::shared_ptr<Foreground>& self, SpawnSpec spec, int64_t timeout_us);

 private:
  void OnOutput(OutputEvents* events, std::string_view bytes);
  void Ping();
  void Ended(const JobExit& exit);
  void Close();

  Commands& commands_;
  std::shared_ptr<Record> record_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<OutputPipe> out_, err_;
  OutputEvents out_events_, err_events_;
  std::string batch_;
  EventLoop::Id ping_ = 0;
  int64_t started_us_ = 0;
};

void Commands::Foreground::OnOutput(OutputEvents* events, std::string_view bytes) {
  if (exchange_->closed()) return events->Discard();
  batch_.clear();
  events->Append(bytes, UnixMillis(), &batch_);
  exchange_->Write(batch_);
  if (batch_.capacity() > (64 << 10)) batch_.shrink_to_fit();
  if (exchange_->backlog() > Exchange::kHighWater) {
    if (out_) out_->Pause();
    if (err_) err_->Pause();
  }
}

void Commands::Foreground::Ping() {
  batch_.clear();
  AppendTextEvent(&batch_, "ping", "pong", UnixMillis());
  exchange_->Write(batch_);
  ping_ = commands_.core_.loop.After(kEventPingUs, [this] { Ping(); });
}

void Commands::Foreground::Start(const std::shared_ptr<Foreground>& self, SpawnSpec spec,
                                 int64_t timeout_us) {
  Core& core = self->commands_.core_;
  Foreground* raw = self.get();
  UniqueFd out_write, err_write;
  auto null = OpenNull();
  auto out = OutputPipe::Open(&core.loop, &out_write, [raw](std::string_view bytes) {
    raw->OnOutput(&raw->out_events_, bytes);
  });
  auto err = OutputPipe::Open(&core.loop, &err_write, [raw](std::string_view bytes) {
    raw->OnOutput(&raw->err_events_, bytes);
  });
  for (const Error* error : {null ? nullptr : &null.error(), out ? nullptr : &out.error(),
                             err ? nullptr : &err.error()}) {
    if (!error) continue;
    self->commands_.Finish(self->record_, 255, error->message());
    self->exchange_->RespondError(500, "RUNTIME_ERROR", error->message());
    return;
  }
  raw->out_ = std::move(*out);
  raw->err_ = std::move(*err);
  spec.stdio[0] = null->get();
  spec.stdio[1] = out_write.get();
  spec.stdio[2] = err_write.get();
  raw->started_us_ = MonotonicMicros();
  auto job = Job::Start(&core, std::move(spec), timeout_us,
                        [self](const JobExit& exit) { self->Ended(exit); });

  const int64_t now = UnixMillis();
  raw->exchange_->StartStream(200, EventStreamHeaders());
  AppendTextEvent(&raw->batch_, "init", raw->record_->id, now);
  AppendTextEvent(&raw->batch_, "ping", "pong", now);
  if (!job) {
    const std::string& message = job.error().message();
    AppendCommandError(&raw->batch_, message, message, now);
    raw->exchange_->Write(raw->batch_);
    raw->exchange_->Finish();
    raw->commands_.Finish(raw->record_, 255, message);
    return;
  }
  raw->record_->job = std::move(*job);
  raw->exchange_->Write(raw->batch_);
  raw->ping_ = core.loop.After(kEventPingUs, [raw] { raw->Ping(); });
  raw->exchange_->OnWritable([raw] {
    if (raw->out_) raw->out_->Resume();
    if (raw->err_) raw->err_->Resume();
  });
  // The command continues after its client has disconnected, as in upstream. A paused pipe would
  // then block it, so reading goes on.
  raw->exchange_->OnClosed([raw] {
    if (raw->out_) raw->out_->Resume();
    if (raw->err_) raw->err_->Resume();
  });
}

void Commands::Foreground::Ended(const JobExit& exit) {
  EventLoop& loop = commands_.core_.loop;
  loop.Cancel(ping_);
  // Cleared, because the answer may outlive this object by the grace time.
  exchange_->OnWritable(nullptr);
  exchange_->OnClosed(nullptr);
  out_->Drain();
  err_->Drain();
  const int64_t now = UnixMillis();
  batch_.clear();
  out_events_.End(now, &batch_);
  const bool succeeded = exit.code == 0 && exit.signal == 0;
  err_events_.End(now, &batch_, succeeded ? exit.Warning() : std::string_view());
  std::string error;
  if (succeeded) {
    error = exit.Warning();
    AppendCompleteEvent(&batch_, (MonotonicMicros() - started_us_) / 1000, now);
  } else {
    error = exit.Describe();
    AppendCommandError(&batch_, std::to_string(exit.code), error, now);
  }
  exchange_->Write(batch_);
  const char* grace = commands_.core_.env.Get("EXECD_API_GRACE_SHUTDOWN");
  const int64_t grace_us = grace ? ParseDuration(grace) : 0;
  if (grace_us > 0) {
    loop.After(grace_us, [exchange = exchange_] { exchange->Finish(); });
  } else {
    exchange_->Finish();
  }
  OutputPipe::Abandon(std::move(out_));
  OutputPipe::Abandon(std::move(err_));
  commands_.Finish(record_, exit.code, std::move(error));
}

void Commands::Run(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, exchange = exchange.get()](std::string body) {
    auto request = ParseCommandRequest(std::move(body));
    if (!request) {
      exchange->RespondError(400, kInvalidBody, request.error().message());
      return;
    }
    RunRequest(exchange->shared_from_this(), *request);
  });
}

Result<SpawnSpec> Commands::Prepare(const CommandRequest& request, Identity* identity,
                                    UniqueFd* cwd, UniqueFd* notebook, UniqueFd* script) const {
  *identity = core_.user;
  if (request.ids) {
    ATOLL_ASSIGN(*identity, ResolveIds(*request.ids));
  }
  Environment env = core_.CommandEnvironment(request.envs, *identity);
  ATOLL_ASSIGN(*notebook, AnswerNotebookProbe(request.command, &env));
  SpawnSpec spec;
  if (!request.cwd.empty()) {
    ATOLL_ASSIGN(const std::string path, ExpandPath(request.cwd, env, core_.Home(*identity)));
    auto directory = OpenDirectory(path, *identity);
    if (!directory) {
      return Fail(std::move(directory).error().Wrap("cwd '" + request.cwd + "'"));
    }
    *cwd = std::move(*directory);
    spec.cwd = cwd->get();
  }
  if (request.argv.empty()) {
    std::string shell = core_.Shell();
    spec.argv = {shell.empty() ? "sh" : shell.substr(shell.rfind('/') + 1), "-c"};
    spec.programs = {shell.empty() ? "/bin/sh" : std::move(shell)};
    ATOLL_ASSIGN(*script, AddScript(request.command, &spec));
  } else {
    spec.argv = request.argv;
    spec.programs = PlacedCandidates(spec.argv[0], env);
  }
  spec.env = env.entries();
  spec.identity = identity;
  return spec;
}

void Commands::RunRequest(const std::shared_ptr<Exchange>& exchange,
                          const CommandRequest& request) {
  Identity identity;
  UniqueFd cwd, notebook, script;
  const auto form = ParseOutputForm(exchange->QueryValue("encoding"), OutputForm::kText);
  auto spec = form ? Prepare(request, &identity, &cwd, &notebook, &script) : Fail(form.error());
  if (!spec) {
    exchange->RespondError(400, kInvalidBody, spec.error().message());
    return;
  }
  if (request.background) {
    StartBackground(exchange, request, std::move(*spec));
  } else {
    StartForeground(exchange, request, std::move(*spec), std::move(notebook), *form);
  }
}

void Commands::StartForeground(const std::shared_ptr<Exchange>& exchange,
                               const CommandRequest& request, SpawnSpec spec, UniqueFd notebook,
                               OutputForm form) {
  auto record = NewRecord(request);
  record->notebook = std::move(notebook);
  auto run = std::make_shared<Foreground>(this, std::move(record), exchange, form);
  Foreground::Start(run, std::move(spec), request.timeout_ms * 1000);
}

void Commands::StartBackground(const std::shared_ptr<Exchange>& exchange,
                               const CommandRequest& request, SpawnSpec spec) {
  UniqueFd write_end;
  auto spool = Spool::Open(&core_.loop, core_.env.Get("TMPDIR"), &write_end);
  auto null = OpenNull();
  if (!spool || !null) {
    exchange->RespondError(500, "RUNTIME_ERROR",
                           spool ? null.error().message() : spool.error().message());
    return;
  }
  auto record = NewRecord(request);
  record->spool = std::move(*spool);
  spec.stdio[0] = null->get();
  spec.stdio[1] = spec.stdio[2] = write_end.get();
  const std::weak_ptr<Record> weak = record;
  auto job = Job::Start(
      &core_, std::move(spec), request.timeout_ms * 1000, [this, weak](const JobExit& exit) {
        const bool failed = exit.code != 0 || exit.signal != 0;
        if (const auto held = weak.lock()) {
          held->spool->Drain();
          Finish(held, exit.code, failed ? exit.Describe() : std::string(exit.Warning()));
        }
      });
  if (job) {
    record->job = std::move(*job);
  } else {
    Finish(record, 255, job.error().message());
  }
  std::string events;
  const int64_t now = UnixMillis();
  AppendTextEvent(&events, "init", record->id, now);
  AppendTextEvent(&events, "ping", "pong", now);
  AppendCompleteEvent(&events, 0, now);
  exchange->StartStream(200, EventStreamHeaders());
  exchange->Write(events);
  exchange->Finish();
}

std::shared_ptr<Commands::Record> Commands::NewRecord(const CommandRequest& request) {
  auto record = std::make_shared<Record>();
  record->id = NewUuid(false);
  const std::string content = request.argv.empty() ? request.command : JsonListText(request.argv);
  record->content = content.substr(0, kMaxArgument);  // the beginning of a longer one
  record->background = request.background;
  record->started = RealTime();
  records_.emplace(record->id, record);
  return record;
}

void Commands::Finish(const std::shared_ptr<Record>& record, int exit_code, std::string error) {
  record->running = false;
  record->exit_code = exit_code;
  record->error = std::move(error);
  record->finished = RealTime();
  record->notebook.reset();
  if (record->job) {
    // Destroyed after this turn, because the job is the caller.
    core_.loop.Post([job = std::shared_ptr<Job>(std::move(record->job))] {});
  }
  for (const auto& exchange : record->waiting) exchange->RespondEmpty();
  record->waiting.clear();
  finished_content_ += record->content.size();
  finished_.push_back(record);
  Forget();
}

// A separate, lower limit, because each background log is an open file.
void Commands::Forget() {
  constexpr size_t kMaxSpools = 128;
  size_t spools = 0;
  for (const auto& record : finished_) spools += record->spool ? 1 : 0;
  while (finished_.size() > kMaxFinished || finished_content_ > kMaxContent ||
         spools > kMaxSpools) {
    const auto& oldest = finished_.front();
    spools -= oldest->spool ? 1 : 0;
    finished_content_ -= oldest->content.size();
    records_.erase(oldest->id);
    finished_.pop_front();
  }
}

std::shared_ptr<Commands::Record> Commands::Find(const std::string& id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : found->second;
}

void Commands::Interrupt(const std::shared_ptr<Exchange>& exchange, const std::string& id) {
  const auto record = Find(id);
  if (!record || !record->job) {
    exchange->RespondError(500, "RUNTIME_ERROR", "no running command with id '" + id + "'");
    return;
  }
  record->waiting.push_back(exchange);
  record->job->Interrupt();
}

void Commands::Status(const std::shared_ptr<Exchange>& exchange) {
  const std::string& id = exchange->parameters[0];
  const auto record = Find(id);
  if (!record) {
    exchange->RespondError(404, kInvalidBody, "no command with id '" + id + "'");
    return;
  }
  std::string body = "{\"id\":";
  AppendJsonString(&body, record->id);
  body.append(",\"content\":");
  AppendJsonString(&body, record->content);
  body.append(record->running ? ",\"running\":true" : ",\"running\":false");
  if (!record->running) {
    body.append(",\"exit_code\":");
    AppendJsonInteger(&body, record->exit_code);
  }
  if (!record->error.empty()) {
    body.append(",\"error\":");
    AppendJsonString(&body, record->error);
  }
  body.append(",\"started_at\":");
  AppendJsonTime(&body, record->started.tv_sec, record->started.tv_nsec);
  if (!record->running) {
    body.append(",\"finished_at\":");
    AppendJsonTime(&body, record->finished.tv_sec, record->finished.tv_nsec);
  }
  body.push_back('}');
  exchange->RespondJson(200, body);
}

void Commands::Logs(const std::shared_ptr<Exchange>& exchange) {
  const std::string& id = exchange->parameters[0];
  const auto record = Find(id);
  if (!record || !record->spool) {
    exchange->RespondError(400, kInvalidBody,
                           record ? "command '" + id + "' is not a background command"
                                  : "no command with id '" + id + "'");
    return;
  }
  int64_t cursor = 0;
  if (const std::string* text = exchange->QueryValue("cursor")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), cursor);
    if (error != std::errc() || end != text->data() + text->size() || cursor < 0) cursor = 0;
  }
  record->spool->Drain();
  const int64_t size = record->spool->Size();
  cursor = std::min(std::max(cursor, record->spool->Start()), size);
  auto file = record->spool->Reopen();
  if (!file) {
    exchange->RespondError(500, "RUNTIME_ERROR", file.error().message());
    return;
  }
  const uint64_t length = static_cast<uint64_t>(size - cursor);
  exchange->StartStream(200,
                        {{"Content-Type", "text/plain; charset=utf-8"},
                         {"EXECD-COMMANDS-TAIL-CURSOR", std::to_string(size)}},
                        &length);
  if (length > 0) exchange->WriteFile(std::move(*file), static_cast<uint64_t>(cursor), length);
  exchange->Finish();
}

}  // namespace atl::execd
