// GET /v1/sandboxes/{id}/diff   ?against=image|SNAPSHOT &format=list|tar
//
// atoll-unpack sends its findings through a pipe; they are hostile input. A list is answered as a
// whole, up to a limit. An archive is streamed as fast as the client reads it. If it is cut off,
// the connection closes without the terminating chunk, so the client notices.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/sys.h"
#include "runtime/http/query.h"
#include "runtime/sandbox/record/diff_entry.h"

namespace atl::api {
namespace {

using nlohmann::json;

// Limits of a list. The search stops at the first that is reached.
constexpr size_t kMaxEntries = 50'000;
constexpr size_t kMaxText = 8 << 20;
constexpr size_t kChunk = 64 << 10;
// Limit of bytes that the client has not read yet.
constexpr size_t kMaxBacklog = 1 << 20;

struct DiffQuery {
  std::string snapshot;  // empty: compare with the image
  bool archive = false;
};

Parsed<DiffQuery> ParseDiffQuery(std::string_view text) {
  DiffQuery query;
  for (auto& [name, value] : http::ParseQuery(text)) {
    if (name == "against" && value != "image") query.snapshot = std::move(value);
    if (name != "format") continue;
    if (value != "list" && value != "tar") {
      return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                    "format '" + value.substr(0, 40) + "': use list or tar");
    }
    query.archive = value == "tar";
  }
  return query;
}

const char* KindName(char kind) {
  return kind == 'A' ? "added" : kind == 'M' ? "modified" : "deleted";
}

const char* TypeName(char type) {
  switch (type) {
    case 'd':
      return "directory";
    case 'l':
      return "link";
    case 'p':
      return "pipe";
    case 's':
      return "socket";
    case 'c':
    case 'b':
      return "device";
    default:
      return "file";
  }
}

class Difference : public std::enable_shared_from_this<Difference> {
 public:
  Difference(Loop& loop, Call call, bool archive, UniqueFd pipe)
      : loop_(loop), call_(std::move(call)), archive_(archive), pipe_(std::move(pipe)) {}

  void Read() {
    if (watch_ != 0 || !pipe_) return;
    watch_ = loop_.WatchReadable(pipe_.get(), [self = shared_from_this()] { self->OnReadable(); });
  }
  void Told(Status told) {
    told_ = std::move(told);
    End();
  }

 private:
  void OnReadable() {
    // Unwatching may release the last reference to this object.
    const auto self = shared_from_this();
    std::string chunk(kChunk, '\0');
    const ssize_t n = TEMP_FAILURE_RETRY(::read(pipe_.get(), chunk.data(), chunk.size()));
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Close();
    chunk.resize(static_cast<size_t>(n));
    archive_ ? Pass(std::move(chunk)) : Collect(chunk);
  }

  void Rest() {
    if (watch_ != 0) loop_.Unwatch(std::exchange(watch_, 0));
  }
  // Stops reading. The closed pipe tells the writer.
  void Close() {
    const auto self = shared_from_this();
    Rest();
    pipe_.reset();
    End();
  }

  void Pass(std::string chunk) {
    if (!stream_) {
      http::Response head;
      head.headers.Set("Content-Type", "application/x-tar");
      stream_ = call_.Stream(std::move(head));
      if (!stream_) return Close();
      stream_->OnEvents(
          [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->Read();
          },
          [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->Close();
          });
    }
    stream_->Write(std::move(chunk));
    if (stream_->backlog() < kMaxBacklog) return;
    // Keeps this object alive until the client has read the backlog.
    resting_ = shared_from_this();
    Rest();
  }

  void Collect(const std::string& chunk) {
    text_ += chunk;
    size_t begin = 0;
    for (size_t end; (end = text_.find('\0', begin)) != std::string::npos; begin = end + 1) {
      const auto entry =
          sandbox::DiffEntry::Decode(std::string_view(text_).substr(begin, end - begin));
      if (!entry) {
        malformed_ = true;
        return Close();
      }
      size_ += entry->path.size();
      items_.push_back({{"path", "/" + entry->path},
                        {"kind", KindName(entry->kind)},
                        {"type", TypeName(entry->type)},
                        {"size", entry->size}});
      if (items_.size() < kMaxEntries && size_ < kMaxText) continue;
      truncated_ = true;
      return Close();
    }
    text_.erase(0, begin);
    if (text_.size() > kChunk) {
      malformed_ = true;
      Close();
    }
  }

  void End() {
    if (pipe_ || !told_) return;
    resting_.reset();
    if (malformed_) told_ = Fail(Code::kInternal, "atoll-unpack has told something else");
    if (!*told_ && !truncated_) {
      // A stream that has begun is left unfinished, so the client notices.
      if (!stream_) call_.Respond(MapError(told_->error(), Doing::kDiff));
      return stream_.reset();
    }
    if (archive_) {
      if (stream_) stream_->Finish();
      return stream_.reset();
    }
    call_.Respond(JsonResponse(200, {{"items", std::move(items_)}, {"truncated", truncated_}}));
  }

  Loop& loop_;
  const Call call_;
  const bool archive_;
  UniqueFd pipe_;
  Loop::Id watch_ = 0;
  std::optional<Status> told_;
  std::shared_ptr<http::ResponseStream> stream_;
  std::shared_ptr<Difference> resting_;  // this object, while the client is slow
  std::string text_;
  json items_ = json::array();
  size_t size_ = 0;
  bool truncated_ = false;
  bool malformed_ = false;
};

}  // namespace

void Api::DiffSandbox(const Call& call) {
  const std::string& id = call.args[0];
  const auto query = ParseDiffQuery(call.request().query());
  if (!query) return call.Respond(query.error());
  if (parts_.sandboxes.registry.Find(call.caller(), id) == nullptr)
    return call.Respond(NoSuchSandbox(id));
  auto pipe = sys::MakePipe();
  if (!pipe) return call.Respond(MapError(pipe.error(), Doing::kDiff));
  ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  const auto difference =
      std::make_shared<Difference>(parts_.loop, call, query->archive, std::move(pipe->read));
  difference->Read();
  parts_.sandboxes.copies.Diff(call.caller(), id, query->snapshot, query->archive,
                               std::move(pipe->write),
                               [difference](Status told) { difference->Told(std::move(told)); });
}

}  // namespace atl::api
