// Values of /proc/meminfo, proc_meminfo(5).
#pragma once

#include <cstdint>
#include <string_view>

namespace atl {

// What `text`, the file or its beginning, says of `name` ("MemAvailable:"): "Name:   123 kB", in
// bytes; 0 if it is not there. Any thread.
uint64_t MeminfoBytes(std::string_view text, std::string_view name);

}  // namespace atl
