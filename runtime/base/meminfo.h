// Values of /proc/meminfo, proc_meminfo(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atl {

// Returns the value of `name` (such as "MemAvailable:") in bytes, nothing if it is missing. `text`:
// the file or its beginning, with lines "Name:   123 kB". Any thread.
std::optional<uint64_t> MeminfoBytes(std::string_view text, std::string_view name);

}  // namespace atl
