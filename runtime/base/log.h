// Log lines in logfmt. Each line is one write(2) to stderr:
//
//   2026-11-21T12:00:00.123Z info atolld: sandbox created sandbox=4f… took_us=1834
//
// Values with spaces, quotes, control bytes or non-ASCII are quoted and escaped, so untrusted
// values cannot forge a line. Lines are cut at 4 KiB. No allocation and no lock: usable between
// clone and exec, and in every process.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the process name of the lines and the lowest level that is printed. Call before other
// threads exist.
void InitLog(std::string_view process, LogLevel lowest);
// Changes the lowest level. Any thread, any time.
void SetLogLevel(LogLevel lowest);
// Accepts "debug", "info", "warning", "error".
Result<LogLevel> ParseLogLevel(std::string_view text);

// Builds a line and writes it when destroyed.
class LogLine {
 public:
  LogLine(LogLevel level, std::string_view message);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();

  LogLine& Add(std::string_view key, std::string_view value);
  LogLine& Add(std::string_view key, const char* value) {
    return Add(key, std::string_view(value));
  }
  LogLine& Add(std::string_view key, int64_t value);
  LogLine& Add(std::string_view key, int value) { return Add(key, static_cast<int64_t>(value)); }
  LogLine& Add(std::string_view key, uint64_t value);
  LogLine& Add(std::string_view key, uint32_t value) {
    return Add(key, static_cast<uint64_t>(value));
  }
  // Adds error="…" code=…
  LogLine& Add(const Error& error);

 private:
  void Append(std::string_view text);
  void AppendQuoted(std::string_view text);

  bool enabled_;
  size_t size_ = 0;
  char buffer_[4096];
};

}  // namespace atl
