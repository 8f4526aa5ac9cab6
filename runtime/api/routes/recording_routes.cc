// Recorded terminals: GET /recordings/{sandbox}, /recordings/{sandbox}/{recording}. Extensions of
// the OpenSandbox API.
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"
#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/sandbox/output/recordings.h"

namespace atl::api {
namespace {

using nlohmann::json;

constexpr size_t kPiece = 256 << 10;

// Returns the time in the id of a recording.
int64_t StartOf(const std::string& id) {
  int64_t unix_ms = 0;
  std::from_chars(id.data(), id.data() + id.size(), unix_ms);
  return unix_ms;
}

json InfoJson(const sandbox::RecordingInfo& info) {
  json item = {{"id", info.id}, {"startedAt", FormatTime(StartOf(info.id))}, {"bytes", info.bytes}};
  const json head = JsonOrNull(info.head);
  for (const char* name : {"actor", "terminal", "input"}) {
    const auto found = head.is_object() ? head.find(name) : head.end();
    if (head.is_object() && found != head.end()) item[name] = *found;
  }
  return item;
}

// Sends a file as fast as the client reads it.
class FileSending : public std::enable_shared_from_this<FileSending> {
 public:
  FileSending(Loop& loop, UniqueFd file, std::shared_ptr<http::ResponseStream> stream)
      : loop_(loop), file_(std::move(file)), stream_(std::move(stream)) {}

  void Start() {
    // The stream keeps this object alive until it ends.
    stream_->OnEvents([self = shared_from_this()] { self->Step(); }, [] {});
    Step();
  }

 private:
  void Step() {
    if (reading_ || stream_->closed() || stream_->backlog() > 0) return;
    reading_ = true;
    const auto piece = std::make_shared<std::string>(kPiece, '\0');
    const auto n = std::make_shared<ssize_t>(0);
    loop_.RunBlocking(
        [self = shared_from_this(), piece, n] {
          do {
            *n = ::read(self->file_.get(), piece->data(), piece->size());
          } while (*n < 0 && errno == EINTR);
        },
        [self = shared_from_this(), piece, n] {
          self->reading_ = false;
          if (*n < 0) {
            // The stream is not finished, so the client notices that the recording is incomplete.
            LogLine(LogLevel::kError, "a recording is cut off").Add(SysError("read"));
            return self->stream_->OnEvents([] {}, [] {});
          }
          if (*n == 0) return self->stream_->Finish();
          piece->resize(static_cast<size_t>(*n));
          self->stream_->Write(std::move(*piece));
          self->Step();
        });
  }

  Loop& loop_;
  const UniqueFd file_;
  const std::shared_ptr<http::ResponseStream> stream_;
  bool reading_ = false;
};

}  // namespace

void Api::AddRecordingRoutes() {
  router_.Add("GET", "/recordings/{sandbox_id}",
              [this](const Call& call) { ListRecordings(call); });
  router_.Add("GET", "/recordings/{sandbox_id}/{recording_id}",
              [this](const Call& call) { GetRecording(call); });
}

bool Api::KnowsSandbox(const Call& call, const std::string& id) {
  if (parts_.sandboxes.registry.Find(call.caller(), id) != nullptr) return true;
  const auto gone = parts_.sandboxes.departures.Find(call.caller(), id);
  if (gone && *gone) return true;
  call.Respond(gone ? NoSuchSandbox(id) : MapError(gone.error(), Doing::kFind));
  return false;
}

void Api::ListRecordings(const Call& call) {
  const std::string& id = call.args[0];
  if (!KnowsSandbox(call, id)) return;
  using Found = Result<std::vector<sandbox::RecordingInfo>>;
  const auto found = std::make_shared<Found>();
  parts_.loop.RunBlocking(
      [found, id, directory = parts_.sandboxes.recordings.directory()] {
        *found = sandbox::ListRecordings(directory, id);
      },
      [found, call] {
        if (!*found) return call.Respond(MapError(found->error(), Doing::kFind));
        json items = json::array();
        for (const sandbox::RecordingInfo& info : **found) items.push_back(InfoJson(info));
        call.Respond(JsonResponse(200, {{"items", std::move(items)}}));
      });
}

void Api::GetRecording(const Call& call) {
  const std::string& id = call.args[0];
  if (!KnowsSandbox(call, id)) return;
  auto file = sandbox::OpenRecording(parts_.sandboxes.recordings.directory(), id, call.args[1]);
  if (!file) {
    if (file.error().code() != Code::kNotFound) {
      return call.Respond(MapError(file.error(), Doing::kFind));
    }
    return call.Respond(
        ApiError{404, "RECORDING::NOT_FOUND",
                 "the sandbox has no recording '" + call.args[1].substr(0, 64) + "'"});
  }
  http::Response head;
  head.headers.Set("Content-Type", "application/x-asciicast");
  head.headers.Set("Cache-Control", "no-store");
  std::make_shared<FileSending>(parts_.loop, *std::move(file), call.Stream(std::move(head)))
      ->Start();
}

}  // namespace atl::api
