#include "runtime/sandbox/output/entrypoint_logs.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

// Limit of parallel adoptions, so that a daemon that starts with a thousand sandboxes still answers
// requests.
constexpr int kAdoptionsAtOnce = 2;
// Size of one read, and of one write. Bytes that are read and not yet written must fit into execd's
// buffer beside the bytes in the socket (execd/run/output_feed.cc).
constexpr size_t kReadSize = 32 << 10;
// 13 MB a second over all sandboxes: some percent of a core.
constexpr size_t kTickBudget = 64 << 10;
constexpr int64_t kTickUs = 5000;
constexpr int64_t kConnectRetryUs = 1'000'000;
// A sandbox can run out of memory a hundred times a second, and its history holds few events. So
// within kNotePauseUs each note is passed on once, and at most kMaxNotes notes.
constexpr int64_t kNotePauseUs = 60'000'000;
constexpr size_t kMaxNotes = 2;
constexpr size_t kMaxNote = 200;
// The processes of a sandbox that is gone hold nothing open, so its output ends at once. If it does
// not, this ends it.
constexpr int64_t kLastOutputUs = 5'000'000;

char g_read_buffer[kReadSize];

}  // namespace

EntrypointLogs::EntrypointLogs(Loop& loop, const Clock& clock, Config config)
    : loop_(loop), clock_(clock), config_(std::move(config)) {}

EntrypointLogs::~EntrypointLogs() {
  loop_.Cancel(tick_);
  for (const auto& [id, stream] : streams_) StopListening(stream);
}

Status EntrypointLogs::Start(const std::unordered_set<std::string>& kept) {
  if (config_.directory.empty()) return {};
  ATOLL_ASSIGN(store_, LogStore::Open(config_.directory, config_.max_bytes));
  ATOLL_ASSIGN(const std::vector<std::string> found, store_->List());
  for (const std::string& id : found) {
    has_files_.insert(id);
    // An earlier daemon was killed after the sandbox was removed and before its log was.
    if (!kept.contains(id)) RemoveFiles(id);
  }
  return {};
}

EntrypointLogs::StreamPtr EntrypointLogs::Find(const std::string& id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
}

EntrypointLogs::StreamPtr EntrypointLogs::Begin(const std::string& id) {
  StreamPtr& stream = streams_[id];
  if (!stream) {
    stream = std::make_shared<Stream>();
    stream->id = id;
  }
  return std::exchange(stream->begun, true) ? nullptr : stream;
}

void EntrypointLogs::Follow(const std::string& id, UniqueFd socket, std::string_view received) {
  const StreamPtr stream = store_ ? Begin(id) : nullptr;
  if (!stream) return;
  stream->socket = std::move(socket);
  if (auto taken = Take(*stream, received); !taken) {
    LogLine(LogLevel::kWarning, "output is not followed").Add("sandbox", id).Add(taken.error());
    return End(stream);
  }
  Listen(stream);
  Write(stream);
}

void EntrypointLogs::Adopt(const std::string& id, const std::string& execd_socket,
                           const std::string& access_token) {
  const StreamPtr stream = store_ ? Begin(id) : nullptr;
  if (!stream) return;
  // Blocks all other work on the files until their end is known.
  stream->writing = true;
  adoptions_.push_back({stream, execd_socket, access_token});
  AdoptNext();
}

void EntrypointLogs::AdoptNext() {
  if (adopting_ == kAdoptionsAtOnce || adoptions_.empty()) return;
  ++adopting_;
  auto [stream, execd_socket, access_token] = std::move(adoptions_.front());
  adoptions_.pop_front();
  auto end = std::make_shared<Result<LogStore::End>>();
  loop_.RunBlocking([store = store_, id = stream->id, end] { *end = store->FindEnd(id); },
                    guard_([this, stream, end, execd_socket, access_token] {
                      --adopting_;
                      AdoptNext();
                      stream->writing = false;
                      if (stream->removed) return RemoveFiles(stream->id);
                      if (!*end) {
                        LogLine(LogLevel::kWarning, "cannot read a log; beginning again")
                            .Add("sandbox", stream->id)
                            .Add(end->error());
                        *end = LogStore::End();
                      }
                      stream->offset = (*end)->offset;
                      stream->time_us = (*end)->time_us;
                      Connect(stream, execd_socket, access_token);
                    }));
}

void EntrypointLogs::Abandon(const std::string& id) {
  const StreamPtr stream = Find(id);
  if (stream && !stream->begun) Finish(stream);
}

void EntrypointLogs::Connect(const StreamPtr& stream, const std::string& execd_socket,
                             const std::string& access_token) {
  if (stream->removed) return;
  auto socket = ConnectToExecd(execd_socket);
  // EAGAIN: the accept queue is full, because the sandbox is frozen or very busy.
  if (!socket && socket.error().error_number() == EAGAIN) {
    loop_.After(kConnectRetryUs, guard_([this, stream, execd_socket, access_token] {
                  Connect(stream, execd_socket, access_token);
                }));
    return;
  }
  if (!socket) {
    LogLine(LogLevel::kWarning, "output is not followed")
        .Add("sandbox", stream->id)
        .Add(socket.error());
    return End(stream);
  }
  const std::string target =
      std::string(wire::kOutputRoute) + "?offset=" + std::to_string(stream->offset);
  if (!RequestLine(socket->get(), target, access_token)) return End(stream);
  stream->socket = std::move(*socket);
  stream->head.emplace();
  Listen(stream);
}

// ---- reading

void EntrypointLogs::Listen(const StreamPtr& stream) {
  if (stream->watch != 0 || !stream->socket) return;
  stream->watch = loop_.WatchReadable(stream->socket.get(), [this, weak = std::weak_ptr(stream)] {
    if (const StreamPtr strong = weak.lock()) OnReadable(strong);
  });
}

void EntrypointLogs::StopListening(const StreamPtr& stream) {
  if (stream->watch != 0) loop_.Unwatch(std::exchange(stream->watch, 0));
}

void EntrypointLogs::OnReadable(const StreamPtr& stream) {
  if (stream->writing || !HasBudget()) return Park(stream);
  if (ReadOnce(stream) == Arrival::kEnd) return End(stream);
  Write(stream);
}

bool EntrypointLogs::HasBudget() {
  const int64_t now = clock_.BootMicros();
  if (now - tick_began_us_ >= kTickUs) {
    tick_began_us_ = now;
    budget_ = kTickBudget;
  }
  return budget_ > 0;
}

EntrypointLogs::Arrival EntrypointLogs::ReadOnce(const StreamPtr& stream) {
  const ssize_t n = ::recv(stream->socket.get(), g_read_buffer, kReadSize, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Arrival::kNone;
  if (n <= 0) return Arrival::kEnd;
  const auto size = static_cast<size_t>(n);
  budget_ -= std::min(budget_, size);
  if (auto taken = Take(*stream, {g_read_buffer, size}); !taken) {
    LogLine(LogLevel::kWarning, "output is not followed any more")
        .Add("sandbox", stream->id)
        .Add(taken.error());
    return Arrival::kEnd;
  }
  return Arrival::kSome;
}

Status EntrypointLogs::Take(Stream& stream, std::string_view bytes) {
  if (stream.head) {
    ATOLL_ASSIGN(const auto rest, stream.head->Take(bytes));
    if (!rest) return {};
    stream.head.reset();
    return Take(stream, *rest);
  }
  stream.frames.Append(bytes);
  for (;;) {
    ATOLL_ASSIGN(std::optional<wire::OutputFrame> frame, stream.frames.Next());
    if (!frame) return {};
    ATOLL_TRY(TakeFrame(stream, std::move(*frame)));
  }
}

Status EntrypointLogs::TakeFrame(Stream& stream, wire::OutputFrame frame) {
  if (frame.offset != stream.offset) {
    return Fail(Code::kInvalidArgument, "output frame at " + std::to_string(frame.offset) +
                                            ", expected at " + std::to_string(stream.offset));
  }
  // The sandbox uses the host's clock, but may send any time.
  const int64_t now = clock_.UnixMillis() * 1000 + 999;
  frame.time_us = std::clamp(frame.time_us, std::min(stream.time_us, now), now);
  stream.time_us = frame.time_us;
  stream.offset = frame.end();
  stats_.lost += frame.lost;
  stats_.bytes += frame.bytes.size();
  stream.batch += frame.Encode();
  if (frame.kind == wire::OutputFrame::Kind::kNote) PassOn(stream, frame.bytes);
  return {};
}

void EntrypointLogs::PassOn(Stream& stream, const std::string& note) {
  const int64_t now_us = clock_.BootMicros();
  std::erase_if(stream.noted_us,
                [now_us](const auto& noted) { return now_us - noted.second >= kNotePauseUs; });
  const std::string text = note.substr(0, kMaxNote);
  if (stream.noted_us.size() == kMaxNotes || !stream.noted_us.emplace(text, now_us).second) return;
  if (on_note_) on_note_(stream.id, text);
}

// Stops watching the socket until the stream's turn. The loop would report it in every round
// otherwise.
void EntrypointLogs::Park(const StreamPtr& stream) {
  StopListening(stream);
  if (!std::exchange(stream->parked, true)) queue_.push_back(stream);
  if (tick_ != 0) return;
  const int64_t wait = tick_began_us_ + kTickUs - clock_.BootMicros();
  tick_ = loop_.After(std::max<int64_t>(wait, 0), [this] { Tick(); });
}

void EntrypointLogs::Tick() {
  tick_ = 0;
  for (size_t turns = queue_.size(); turns > 0 && HasBudget(); --turns) {
    const StreamPtr stream = queue_.front();
    queue_.pop_front();
    stream->parked = false;
    if (stream->ended || stream->removed) continue;
    if (stream->writing) {
      Park(stream);
      continue;
    }
    switch (ReadOnce(stream)) {
      case Arrival::kEnd:
        End(stream);
        break;
      case Arrival::kNone:
        Listen(stream);
        break;
      case Arrival::kSome:
        Write(stream);
        Park(stream);
        break;
    }
  }
  if (!queue_.empty()) Park(queue_.front());
}

// ---- writing

void EntrypointLogs::Write(const StreamPtr& stream) {
  if (stream->batch.empty() || stream->writing) return;
  stream->writing = true;
  auto status = std::make_shared<Status>();
  auto batch = std::make_shared<const std::string>(std::exchange(stream->batch, {}));
  loop_.RunBlocking(
      [store = store_, id = stream->id, status, batch] { *status = store->Append(id, *batch); },
      guard_([this, stream, status, batch] { Written(stream, *status, batch->size()); }));
}

void EntrypointLogs::Written(const StreamPtr& stream, const Status& status, size_t bytes) {
  stream->writing = false;
  has_files_.insert(stream->id);
  const bool was_failing = std::exchange(failing_, !status);
  if (!status) {
    ++stats_.write_errors;
    // Logged once and not for each line, because a full disk affects all of them.
    if (!was_failing) {
      LogLine(LogLevel::kError, "cannot write a log; output is lost until that is possible again")
          .Add("sandbox", stream->id)
          .Add("bytes", static_cast<uint64_t>(bytes))
          .Add(status.error());
    }
  }
  if (stream->removed) return RemoveFiles(stream->id);
  // A watcher may unwatch itself or another watcher.
  std::vector<uint64_t> ids;
  for (const auto& [id, watcher] : stream->watchers) ids.push_back(id);
  for (const uint64_t id : ids) {
    const auto found = stream->watchers.find(id);
    if (found == stream->watchers.end()) continue;
    const Watcher call = found->second;
    call(false);
  }
  if (!stream->batch.empty()) return Write(stream);
  if (stream->ended) Finish(stream);
}

void EntrypointLogs::End(const StreamPtr& stream) {
  StopListening(stream);
  stream->socket.reset();
  stream->ended = true;
  Write(stream);
  if (!stream->writing) Finish(stream);
}

void EntrypointLogs::Finish(const StreamPtr& stream) {
  const auto found = streams_.find(stream->id);
  if (found != streams_.end() && found->second == stream) streams_.erase(found);
  const auto watchers = std::exchange(stream->watchers, {});
  for (const auto& [id, watcher] : watchers) watcher(true);
  if (const auto complete = std::exchange(stream->complete, nullptr)) Measure(stream->id, complete);
}

// ---- removing

void EntrypointLogs::Remove(const std::string& id) {
  if (!store_) return;
  const StreamPtr stream = Find(id);
  if (!stream) return RemoveFiles(id);
  stream->removed = true;
  stream->complete = nullptr;
  StopListening(stream);
  stream->socket.reset();
  Finish(stream);
  if (!stream->writing) RemoveFiles(id);
}

void EntrypointLogs::RemoveFiles(const std::string& id) {
  if (has_files_.erase(id) == 0) return;
  loop_.RunBlocking(
      [store = store_, id] {
        if (auto removed = store->Remove(id); !removed) {
          LogLine(LogLevel::kWarning, "cannot remove a log; the next start will")
              .Add("sandbox", id)
              .Add(removed.error());
        }
      },
      [] {});
}

bool EntrypointLogs::Leave(const std::string& id, std::function<void(uint64_t bytes)> complete) {
  if (!store_) return false;
  const StreamPtr stream = Find(id);
  if (!stream) {
    if (!has_files_.contains(id)) return false;
    Measure(id, std::move(complete));
    return true;
  }
  stream->complete = std::move(complete);
  if (!stream->begun) {
    Finish(stream);
  } else {
    loop_.After(kLastOutputUs, guard_([this, weak = std::weak_ptr(stream)] {
                  const StreamPtr late = weak.lock();
                  if (late && !late->ended) End(late);
                }));
  }
  return true;
}

void EntrypointLogs::Measure(const std::string& id, std::function<void(uint64_t bytes)> done) {
  if (!store_) return;
  auto size = std::make_shared<uint64_t>(0);
  loop_.RunBlocking([store = store_, id, size] { *size = store->SizeOf(id); },
                    guard_([size, done = std::move(done)] { done(*size); }));
}

// ---- for readers

LogStore::Files EntrypointLogs::OpenFiles(const std::string& id) const {
  return store_ ? store_->OpenFiles(id) : LogStore::Files();
}

void EntrypointLogs::Read(const std::string& id, std::shared_ptr<LogReader> reader,
                          std::function<void(std::string text)> done) {
  auto files = std::make_shared<LogStore::Files>(OpenFiles(id));
  if (files->empty()) return done(reader->Read(*files));
  auto text = std::make_shared<std::string>();
  loop_.RunBlocking([reader, files, text] { *text = reader->Read(*files); },
                    [text, done = std::move(done)] { done(std::move(*text)); });
}

uint64_t EntrypointLogs::Watch(const std::string& id, bool coming, Watcher watcher) {
  if (!store_) return 0;
  StreamPtr stream = Find(id);
  if (!stream && coming) {
    stream = streams_[id] = std::make_shared<Stream>();
    stream->id = id;
  }
  if (!stream) return 0;
  stream->watchers.emplace(++last_watch_, std::move(watcher));
  return last_watch_;
}

void EntrypointLogs::Unwatch(const std::string& id, uint64_t watch) {
  if (const StreamPtr stream = Find(id)) stream->watchers.erase(watch);
}

}  // namespace atl::sandbox
