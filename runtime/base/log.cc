#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "runtime/base/utc_time.h"

namespace atl {
namespace {

char g_process[32] = "atoll";
std::atomic<LogLevel> g_lowest = LogLevel::kInfo;

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || std::any_of(text.begin(), text.end(), [](char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\' || c > '~';
         });
}

// Where nobody else rotates our log it would grow without end: of a regular file the oldest part is
// given back once it is this large.
constexpr off_t kMaxLogFile = 8 << 20;
constexpr off_t kKeptOfLog = 4 << 20;
constexpr off_t kLogBlock = 1 << 20;  // whole blocks of any file system
std::atomic<int64_t> g_unchecked = 0;

void BoundLogFile(ssize_t written) {
  if (g_unchecked.fetch_add(std::max<ssize_t>(written, 0)) < kLogBlock) return;
  g_unchecked = 0;
  struct stat info {};
  if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (info.st_blocks * 512 <= kMaxLogFile) return;
  const off_t old = (info.st_size - kKeptOfLog) / kLogBlock * kLogBlock;
  // A file system that cannot take out the front (tmpfs) leaves a hole in its place.
  if (::fallocate(STDERR_FILENO, FALLOC_FL_COLLAPSE_RANGE, 0, old) != 0) {
    (void)::fallocate(STDERR_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, old);
  }
}

}  // namespace

void InitLog(std::string_view process, LogLevel lowest) {
  const size_t n = std::min(process.size(), sizeof g_process - 1);
  std::memcpy(g_process, process.data(), n);
  g_process[n] = '\0';
  SetLogLevel(lowest);
}

void SetLogLevel(LogLevel lowest) {
  g_lowest.store(lowest, std::memory_order_relaxed);
}

Result<LogLevel> ParseLogLevel(std::string_view text) {
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (text == LevelName(level)) return level;
  }
  return Fail(Code::kInvalidArgument,
              "log level '" + std::string(text) + "': use debug, info, warning or error");
}

LogLine::LogLine(LogLevel level, std::string_view message)
    : enabled_(level >= g_lowest.load(std::memory_order_relaxed)) {
  if (!enabled_) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const UtcTime time(now.tv_sec, now.tv_nsec, 3);
  const std::string_view parts[] = {time.text(), " ",  LevelName(level), " ",
                                    g_process,   ": ", message};
  for (const std::string_view part : parts) Append(part);
}

LogLine::~LogLine() {
  if (!enabled_) return;
  buffer_[size_++] = '\n';
  // A full pipe or a closed stderr must not stop the daemon: the line is then lost.
  const ssize_t n = ::write(STDERR_FILENO, buffer_, size_);
  BoundLogFile(n);
}

// Leaves room for the closing quote and the newline.
void LogLine::Append(std::string_view text) {
  constexpr size_t kLimit = sizeof buffer_ - 2;
  const size_t n = std::min(size_ < kLimit ? kLimit - size_ : 0, text.size());
  std::memcpy(buffer_ + size_, text.data(), n);
  size_ += n;
}

void LogLine::AppendQuoted(std::string_view text) {
  const size_t before = size_;
  Append("\"");
  if (size_ == before) return;
  for (char c : text) {
    char piece[8] = {c};
    int size = 1;
    if (c == '"' || c == '\\') {
      size = std::snprintf(piece, sizeof piece, "\\%c", c);
    } else if (c == '\n') {
      size = std::snprintf(piece, sizeof piece, "\\n");
    } else if (c < ' ' || c > '~') {
      size = std::snprintf(piece, sizeof piece, "\\x%02x", static_cast<unsigned char>(c));
    }
    // Half an escape would take the closing quote with it.
    if (sizeof buffer_ - 2 - size_ < static_cast<size_t>(size)) break;
    Append({piece, static_cast<size_t>(size)});
  }
  // However much of the text there was room for: Append has left it for this.
  buffer_[size_++] = '"';
}

LogLine& LogLine::Add(std::string_view key, std::string_view value) {
  if (!enabled_) return *this;
  Append(" ");
  Append(key);
  Append("=");
  if (NeedsQuotes(value)) {
    AppendQuoted(value);
  } else {
    Append(value);
  }
  return *this;
}

LogLine& LogLine::Add(std::string_view key, int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return Add(key, std::string_view(digits, static_cast<size_t>(end - digits)));
}

LogLine& LogLine::Add(std::string_view key, uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return Add(key, std::string_view(digits, static_cast<size_t>(end - digits)));
}

LogLine& LogLine::Add(const Error& error) {
  Add("error", error.message());
  return Add("code", CodeName(error.code()));
}

}  // namespace atl
