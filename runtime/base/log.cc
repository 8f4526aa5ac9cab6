#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/log_format.h"
#include "runtime/base/utc_time.h"
#include "runtime/base/utf8.h"

namespace atl {
namespace {

char g_process[32] = "atoll";
std::atomic<LogLevel> g_lowest = LogLevel::kInfo;
std::atomic<bool> g_json = false;
bool g_journal = false;  // stderr is the journal

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

// Returns syslog(3)'s priority of a level in the form of sd-daemon(3).
const char* PriorityPrefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "<7>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kWarning:
      return "<4>";
    case LogLevel::kError:
      break;
  }
  return "<3>";
}

// A line keeps the format that was set when it was started.
bool IsJsonLine(std::string_view line) {
  if (line.starts_with('<')) line.remove_prefix(3);
  return line.starts_with('{');
}

// Removes the first character from `text` and writes its JSON form to `piece`, which has at least
// 13 bytes. Invalid UTF-8 becomes U+FFFD, and characters that a terminal or editor would act on are
// escaped.
size_t EscapeJson(std::string_view* text, char* piece) {
  const char c = text->front();
  if (c >= ' ' && c <= '~') {
    text->remove_prefix(1);
    if (c != '"' && c != '\\') {
      *piece = c;
      return 1;
    }
    piece[0] = '\\';
    piece[1] = c;
    return 2;
  }
  const Utf8Character character = FirstUtf8(*text);
  text->remove_prefix(std::max<size_t>(character.length, 1));
  const uint32_t code = character.length == 0 ? 0xfffd : character.code;
  constexpr uint32_t kFirstPair = 0x10000;
  const int size = code < kFirstPair ? std::snprintf(piece, 13, "\\u%04x", code)
                                     : std::snprintf(piece, 13, "\\u%04x\\u%04x",
                                                     0xd800 + ((code - kFirstPair) >> 10),
                                                     0xdc00 + ((code - kFirstPair) & 0x3ff));
  return static_cast<size_t>(size);
}

size_t EscapeText(char c, char* piece) {
  int size = 1;
  *piece = c;
  if (c == '"' || c == '\\') {
    size = std::snprintf(piece, 8, "\\%c", c);
  } else if (c == '\n') {
    size = std::snprintf(piece, 8, "\\n");
  } else if (c < ' ' || c > '~') {
    size = std::snprintf(piece, 8, "\\x%02x", static_cast<unsigned char>(c));
  }
  return static_cast<size_t>(size);
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || std::any_of(text.begin(), text.end(), [](char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\' || c > '~';
         });
}

// Limit of a log that is a regular file. Nobody may rotate it, so the oldest part is removed when
// it reaches this size.
constexpr off_t kMaxLogFile = 8 << 20;
constexpr off_t kKeptOfLog = 4 << 20;
constexpr off_t kLogBlock = 1 << 20;  // a multiple of the block size of any file system
std::atomic<int64_t> g_unchecked = 0;

void BoundLogFile(ssize_t written) {
  if (g_unchecked.fetch_add(std::max<ssize_t>(written, 0)) < kLogBlock) return;
  g_unchecked = 0;
  struct stat info {};
  if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (info.st_blocks * 512 <= kMaxLogFile) return;
  const off_t old = (info.st_size - kKeptOfLog) / kLogBlock * kLogBlock;
  // File systems that cannot remove the front (tmpfs) get a hole instead.
  if (::fallocate(STDERR_FILENO, FALLOC_FL_COLLAPSE_RANGE, 0, old) != 0) {
    (void)::fallocate(STDERR_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, old);
  }
}

}  // namespace

void InitLog(std::string_view process, LogLevel lowest) {
  const size_t n = std::min(process.size(), sizeof g_process - 1);
  std::memcpy(g_process, process.data(), n);
  g_process[n] = '\0';
  g_journal = IsJournal(STDERR_FILENO);
  SetLogLevel(lowest);
}

void SetLogFormat(LogFormat format) {
  g_json.store(format == LogFormat::kJson, std::memory_order_relaxed);
}

Result<LogFormat> ParseLogFormat(std::string_view text) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    if (text == LogFormatName(format)) return format;
  }
  return Fail(Code::kInvalidArgument, "log format '" + std::string(text) + "': use text or json");
}

std::string_view LogFormatName(LogFormat format) {
  return format == LogFormat::kJson ? "json" : "text";
}

bool IsJournal(int fd) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat info {};
  if (stream == nullptr || ::fstat(fd, &info) != 0) return false;
  return stream == std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
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
  if (g_journal) Append(PriorityPrefix(level));
  const UtcTime time(now.tv_sec, now.tv_nsec, 3);
  if (g_json.load(std::memory_order_relaxed)) {
    for (const std::string_view part :
         {std::string_view("{\"time\":\""), std::string_view(time.text()),
          std::string_view("\",\"level\":\""), std::string_view(LevelName(level)),
          std::string_view("\"")}) {
      Append(part);
    }
    Add("process", g_process).Add("msg", message);
    return;
  }
  if (!g_journal) {
    for (const std::string_view part :
         {std::string_view(time.text()), std::string_view(" "), std::string_view(LevelName(level)),
          std::string_view(" "), std::string_view(g_process), std::string_view(": ")}) {
      Append(part);
    }
  }
  Append(message);
}

LogLine::~LogLine() {
  if (!enabled_) return;
  if (IsJsonLine({buffer_, size_})) buffer_[size_++] = '}';
  buffer_[size_++] = '\n';
  // A full pipe or a closed stderr must not stop the daemon; the line is lost.
  const ssize_t n = ::write(STDERR_FILENO, buffer_, size_);
  BoundLogFile(n);
}

// Leaves room for the closing quote, the closing brace and the newline.
void LogLine::Append(std::string_view text) {
  constexpr size_t kLimit = sizeof buffer_ - 3;
  const size_t n = std::min(size_ < kLimit ? kLimit - size_ : 0, text.size());
  std::memcpy(buffer_ + size_, text.data(), n);
  size_ += n;
}

void LogLine::AppendQuoted(std::string_view text) {
  const size_t before = size_;
  Append("\"");
  if (size_ == before) return;
  const bool json = IsJsonLine({buffer_, size_});
  while (!text.empty()) {
    char piece[16] = {text.front()};
    size_t size = 1;
    if (json) {
      size = EscapeJson(&text, piece);
    } else {
      size = EscapeText(text.front(), piece);
      text.remove_prefix(1);
    }
    // A partial escape would swallow the closing quote.
    if (sizeof buffer_ - 3 - size_ < size) break;
    Append({piece, size});
  }
  // Append has left room for this quote, even if the text was cut.
  buffer_[size_++] = '"';
}

LogLine& LogLine::Add(std::string_view key, std::string_view value) {
  if (!enabled_) return *this;
  if (IsJsonLine({buffer_, size_})) {
    // Adds `,"key":""` completely or not at all.
    if (sizeof buffer_ - 3 - size_ < key.size() + 6) return *this;
    Append(",\"");
    Append(key);
    Append("\":");
    AppendQuoted(value);
    return *this;
  }
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
  const std::string_view number(digits, static_cast<size_t>(end - digits));
  if (!enabled_ || !IsJsonLine({buffer_, size_})) return Add(key, number);
  if (sizeof buffer_ - 3 - size_ < key.size() + number.size() + 4) return *this;
  for (const std::string_view part :
       {std::string_view(",\""), key, std::string_view("\":"), number}) {
    Append(part);
  }
  return *this;
}

LogLine& LogLine::Add(std::string_view key, uint64_t value) {
  if (value <= INT64_MAX) return Add(key, static_cast<int64_t>(value));
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return Add(key, std::string_view(digits, static_cast<size_t>(end - digits)));
}

LogLine& LogLine::Add(const Error& error) {
  Add("error", error.message());
  return Add("code", CodeName(error.code()));
}

}  // namespace atl
