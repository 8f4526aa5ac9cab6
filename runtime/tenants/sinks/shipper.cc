#include "runtime/tenants/sinks/shipper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/base/thread.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::sinks {
namespace {

constexpr size_t kMostLines = 500;
constexpr size_t kMostBytes = 512 << 10;
// The log grows by a write(2) that wakes nobody, so the shipper looks for new lines.
constexpr int kLookMs = 1000;
constexpr int kMostWaitMs = 60'000;
constexpr size_t kMaxCursor = 256;
constexpr mode_t kCursorMode = 0640;

std::string CursorName(const std::string& sink) {
  return sink + ".cursor";
}

}  // namespace

Shipper::Shipper(UniqueFd directory, UniqueFd stop, std::string name, std::unique_ptr<Sink> sink,
                 std::function<void(uint64_t)> lost)
    : directory_(std::move(directory)),
      stop_(std::move(stop)),
      name_(std::move(name)),
      sink_(std::move(sink)),
      report_lost_(std::move(lost)) {}

Result<std::unique_ptr<Shipper>> Shipper::Start(const std::string& directory, std::string name,
                                                std::unique_ptr<Sink> sink,
                                                std::function<void(uint64_t)> lost) {
  ATOLL_ASSIGN(UniqueFd fd, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return FailSys("eventfd");
  std::unique_ptr<Shipper> shipper(new Shipper(std::move(fd), std::move(stop), std::move(name),
                                               std::move(sink), std::move(lost)));
  ATOLL_TRY(shipper->LoadCursor());
  ATOLL_ASSIGN(shipper->thread_, StartThread("audit sink", [raw = shipper.get()] { raw->Run(); }));
  return shipper;
}

Shipper::~Shipper() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

Status Shipper::LoadCursor() {
  auto text = sys::ReadFileAt(directory_.get(), CursorName(name_), kMaxCursor);
  if (!text && text.error().code() == Code::kNotFound) {
    ATOLL_ASSIGN(const auto files, audit::ListLogFiles(directory_.get()));
    if (!files.empty()) file_ = files.front().index;
    return {};
  }
  if (!text) return Fail(std::move(text).error());
  std::istringstream words(*text);
  uint64_t file = 0, seq = 0;
  if (!(words >> file >> offset_ >> seq) || file == 0) {
    return Fail(Code::kFailedPrecondition, CursorName(name_) + " is damaged: remove it");
  }
  file_ = file;
  seq_ = seq;
  return {};
}

Status Shipper::SaveCursor() {
  const std::string text =
      std::to_string(file_) + " " + std::to_string(offset_) + " " + std::to_string(seq_) + "\n";
  return sys::ReplaceFileAt(directory_.get(), CursorName(name_), text, kCursorMode);
}

Status Shipper::SkipTo(uint64_t file) {
  file_ = file;
  offset_ = 0;
  ATOLL_ASSIGN(auto reader, audit::LogReader::Open(directory_.get(), file));
  ATOLL_ASSIGN(const auto line, reader.Next());
  const auto parsed = line ? audit::ParseLine(*line) : std::nullopt;
  if (!parsed || parsed->seq <= seq_ + 1) return {};
  const uint64_t lost = parsed->seq - seq_ - 1;
  lost_ += lost;
  LogLine(LogLevel::kWarning, "lines of the audit log were deleted before a sink had them")
      .Add("sink", name_)
      .Add("lines", lost);
  report_lost_(lost);
  return {};
}

Result<bool> Shipper::SendSome() {
  ATOLL_ASSIGN(const auto files, audit::ListLogFiles(directory_.get()));
  if (files.empty()) return false;
  // A file that was deleted since may be what the sink needs next.
  const auto next = std::find_if(files.begin(), files.end(),
                                 [this](const auto& file) { return file.index >= file_; });
  if (next == files.end()) return false;
  if (next->index != file_) ATOLL_TRY(SkipTo(next->index));
  ATOLL_ASSIGN(auto reader, audit::LogReader::Open(directory_.get(), file_, offset_));
  Batch batch;
  size_t bytes = 0;
  uint64_t last = seq_;
  while (batch.size() < kMostLines && bytes < kMostBytes) {
    ATOLL_ASSIGN(const auto line, reader.Next());
    if (!line) break;
    const auto parsed = audit::ParseLine(*line);
    if (parsed) last = parsed->seq;
    batch.emplace_back(*line);
    bytes += line->size();
  }
  if (batch.empty()) {
    const bool ended = next + 1 != files.end();
    if (!ended) return false;
    file_ = (next + 1)->index;
    offset_ = 0;
    return true;
  }
  ATOLL_TRY(sink_->Send(batch));
  offset_ = reader.offset();
  seq_ = last;
  // A full disk must not hold up the copy that leaves the host. The sink gets these lines again
  // after a restart.
  const Status saved = SaveCursor();
  if (!saved && cursor_kept_) {
    LogLine(LogLevel::kWarning,
            "the place of a sink in the audit log cannot be written: after a restart it gets lines "
            "again")
        .Add("sink", name_)
        .Add(saved.error());
  }
  cursor_kept_ = static_cast<bool>(saved);
  return true;
}

void Shipper::Run() {
  int wait_ms = 0;
  while (!Sleep(wait_ms)) {
    const auto sent = SendSome();
    if (sent) {
      if (failing_since_us_.exchange(0) != 0) {
        LogLine(LogLevel::kInfo, "a sink of the audit log works again").Add("sink", name_);
      }
      wait_ms = *sent ? 0 : kLookMs;
      continue;
    }
    if (failing_since_us_ == 0) {
      failing_since_us_ = MonotonicMicros();
      LogLine(LogLevel::kWarning, "a sink of the audit log does not take its lines; trying again")
          .Add("sink", name_)
          .Add(sent.error());
    }
    wait_ms = std::clamp(wait_ms * 2, kLookMs, kMostWaitMs);
  }
}

bool Shipper::Sleep(int milliseconds) const {
  pollfd stop{stop_.get(), POLLIN, 0};
  return ::poll(&stop, 1, milliseconds) > 0;
}

}  // namespace atl::sinks
