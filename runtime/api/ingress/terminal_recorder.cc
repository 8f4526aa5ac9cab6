#include "runtime/api/ingress/terminal_recorder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "runtime/api/gate/rights.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/http/query.h"
#include "runtime/http/websocket.h"
#include "runtime/sandbox/output/recordings.h"

namespace atl::api {
namespace {

using http::WebSocketReader;
using sandbox::Recording;

constexpr std::string_view kRoute = "/pty/{id}/ws";
// Binary messages of execd's terminals begin with their channel.
constexpr char kStdin = 0, kStdout = 1, kStderr = 2, kReplay = 3;
constexpr size_t kReplayHead = 9;
// execd's longest messages: a replay of 1 MiB, and as much input.
constexpr size_t kMaxMessage = (1 << 20) + kReplayHead;
// Enough for every resize, if nothing else of the client is recorded.
constexpr size_t kMaxControl = 64 << 10;
constexpr int kMaxSide = 65535;

// Writes a terminal's WebSocket to its recording.
class TerminalTap final : public http::TunnelTap {
 public:
  TerminalTap(std::shared_ptr<Recording> recording, std::string sandbox, bool records_input,
              bool refuses, std::weak_ptr<Auditor> auditor)
      : recording_(std::move(recording)),
        sandbox_(std::move(sandbox)),
        records_input_(records_input),
        refuses_(refuses),
        auditor_(std::move(auditor)),
        client_(WebSocketReader::From::kClient, records_input ? kMaxMessage : kMaxControl) {}
  ~TerminalTap() override {
    if (!begun_ && recording_) recording_->Discard();
  }

  bool FromClient(std::string_view bytes) override {
    if (!recording_ || client_is_unread_) return true;
    begun_ = true;
    Status fed = client_.Feed(bytes, &from_client_);
    // Without input only its resizes are missing: it has pasted much, or execd ends it, too.
    if (!fed && !records_input_) {
      client_is_unread_ = true;
      fed = {};
    }
    if (fed) fed = std::exchange(failed_, {});
    return Judge(fed);
  }

  bool FromUpstream(std::string_view bytes) override {
    if (!recording_) return true;
    begun_ = true;
    Status fed = upstream_.Feed(bytes, &from_upstream_);
    if (fed) fed = std::exchange(failed_, {});
    return Judge(fed);
  }

 private:
  struct Sink : WebSocketReader::Sink {
    explicit Sink(TerminalTap* its_tap) : tap(its_tap) {}
    void OnPing(std::string_view) override {}
    void OnPong() override {}
    void OnClose(uint16_t) override {}
    TerminalTap* const tap;
  };
  struct FromClientSink final : Sink {
    using Sink::Sink;
    void OnMessage(bool text, std::string_view message) override {
      tap->OnClientMessage(text, message);
    }
  };
  struct FromUpstreamSink final : Sink {
    using Sink::Sink;
    void OnMessage(bool text, std::string_view message) override {
      if (!text) tap->OnOutput(message);
    }
  };

  void OnOutput(std::string_view message) {
    if (!failed_ || message.empty()) return;
    const char channel = message.front();
    if (channel == kStdout || channel == kStderr) {
      message.remove_prefix(1);
    } else if (channel == kReplay && message.size() >= kReplayHead) {
      message.remove_prefix(kReplayHead);
    } else {
      return;
    }
    Note(recording_->Output(message, SystemClock().BootMicros()));
  }

  void OnClientMessage(bool text, std::string_view message) {
    if (!failed_) return;
    const int64_t now_us = SystemClock().BootMicros();
    if (!text) {
      if (records_input_ && message.starts_with(kStdin)) {
        Note(recording_->Input(message.substr(1), now_us));
      }
      return;
    }
    const auto parsed = ParseJson(message);
    if (!parsed || !parsed->is_object()) return;
    const auto member = [&parsed](const char* name) {
      const auto found = parsed->find(name);
      return found == parsed->end() ? nlohmann::json() : *found;
    };
    const auto type = member("type"), data = member("data");
    if (type == "resize") {
      const auto columns = member("cols"), rows = member("rows");
      const auto fits = [](const nlohmann::json& side) {
        return side.is_number_integer() && side > 0 && side <= kMaxSide;
      };
      if (fits(columns) && fits(rows)) {
        Note(recording_->Resize(columns.get<int>(), rows.get<int>(), now_us));
      }
    } else if (records_input_ && type == "stdin" && data.is_string()) {
      Note(recording_->Input(data.get<std::string>(), now_us));
    }
  }

  void Note(Status written) {
    if (!written) failed_ = std::move(written);
  }

  // Returns whether the terminal goes on.
  bool Judge(const Status& recorded) {
    if (recorded) return true;
    LogLine(LogLevel::kWarning, "a terminal is not recorded any more")
        .Add("sandbox", sandbox_)
        .Add("recording", recording_->id())
        .Add("ends", refuses_ ? "yes" : "no")
        .Add(recorded.error());
    if (const auto auditor = auditor_.lock()) {
      auditor->WriteOwn(
          "audit.gap", sandbox_,
          {{"reason", "a terminal is not recorded any more: " + recorded.error().message()},
           {"recording", recording_->id()}});
    }
    recording_.reset();
    return !refuses_;
  }

  std::shared_ptr<Recording> recording_;  // null: no longer recorded
  const std::string sandbox_;
  const bool records_input_;
  const bool refuses_;
  const std::weak_ptr<Auditor> auditor_;
  FromClientSink from_client_{this};
  FromUpstreamSink from_upstream_{this};
  WebSocketReader client_;
  WebSocketReader upstream_{WebSocketReader::From::kServer, kMaxMessage};
  Status failed_;  // the first failure among the messages that are being read
  bool begun_ = false;
  bool client_is_unread_ = false;
};

// Returns the ID of "/pty/ID/ws", however it is spelled.
std::string TerminalOf(std::string_view target) {
  std::string path;
  if (!http::PercentDecode(target.substr(0, target.find('?')), &path)) return {};
  const size_t at = std::min(path.find('/', 1), path.size() - 1) + 1;
  return path.substr(at, path.find('/', at) - at);
}

}  // namespace

bool TerminalRecorder::Record(const Call& call, const sandbox::Sandbox& sandbox,
                              http::Upstream* upstream) {
  // The path is decoded, as execd does. A request that does not switch protocols leaves no
  // recording.
  const Rights& rights = RightsAtPort(kExecdPort, call.request().method, upstream->target);
  if (policy_ == RecordPty::kOff || rights.pattern != kRoute) return true;
  auto recording =
      sandboxes_.recordings.Begin({.sandbox = sandbox.id,
                                   .actor = call.caller().key_id,
                                   .terminal = TerminalOf(upstream->target),
                                   .input = policy_ == RecordPty::kInput},
                                  sandboxes_.departures.RoomToRecord(sandbox.tenant),
                                  SystemClock().UnixMillis(), SystemClock().BootMicros());
  if (!recording) {
    LogLine(LogLevel::kWarning, "a terminal cannot be recorded")
        .Add("sandbox", sandbox.id)
        .Add(recording.error());
    if (call.audit()) call.audit()->AddFact("unrecorded", recording.error().message());
    if (!refuses_) return true;
    call.Respond(ApiError{
        503, "AUDIT_UNAVAILABLE",
        "terminals must be recorded, and this one cannot be: " + recording.error().message()});
    return false;
  }
  if (call.audit()) call.audit()->AddFact("recording", (*recording)->id());
  // A compressed stream could not be read here.
  upstream->drop_headers.push_back("Sec-WebSocket-Extensions");
  upstream->tap = std::make_shared<TerminalTap>(*std::move(recording), sandbox.id,
                                                policy_ == RecordPty::kInput, refuses_, auditor_);
  return true;
}

}  // namespace atl::api
