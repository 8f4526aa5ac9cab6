// The formats of log lines. If stderr is the systemd journal (JOURNAL_STREAM of systemd.exec(5)),
// each line begins with its priority, "<4>" (sd-daemon(3)), and the text format omits time and
// process, which the journal records itself.
#pragma once

#include <string_view>

#include "runtime/base/result.h"

namespace atl {

enum class LogFormat {
  kText,  // the format in log.h
  // {"time": …, "level": …, "process": …, "msg": …, KEY: VALUE, …}
  kJson,
};

// Sets the format. Any thread, any time.
void SetLogFormat(LogFormat format);
// Accepts "text" or "json".
Result<LogFormat> ParseLogFormat(std::string_view text);
std::string_view LogFormatName(LogFormat format);

// Returns true if the descriptor is the journal.
bool IsJournal(int fd);

}  // namespace atl
