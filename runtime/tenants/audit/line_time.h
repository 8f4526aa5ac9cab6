// The time of a line of the audit log.
#pragma once

#include <cstdint>
#include <string_view>

namespace atl::audit {

// Returns microseconds since the Unix epoch for "2026-11-28T05:00:00.123456Z"; 0 for any other
// text.
int64_t UnixMicrosOf(std::string_view time);

}  // namespace atl::audit
