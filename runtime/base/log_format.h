// The forms of log lines. Where standard error is the systemd journal (JOURNAL_STREAM of
// systemd.exec(5)) each line begins with its priority, "<4>" (sd-daemon(3)), and the text form
// leaves out what the journal says itself: time and process.
#pragma once

#include <string_view>

#include "runtime/base/result.h"

namespace atl {

enum class LogFormat {
  kText,  // log.h shows it
  // {"time": …, "level": …, "process": …, "msg": …, KEY: VALUE, …}
  kJson,
};

// From now on; any thread, any time.
void SetLogFormat(LogFormat format);
// "text" or "json".
Result<LogFormat> ParseLogFormat(std::string_view text);
std::string_view LogFormatName(LogFormat format);

// Whether the descriptor is the journal.
bool IsJournal(int fd);

}  // namespace atl
