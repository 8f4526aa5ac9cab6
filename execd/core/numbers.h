// Numbers out of the kernel's text files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::execd {

// A decimal number with blanks or a newline around it; absent for anything else, "max" included.
std::optional<int64_t> ToNumber(std::string_view text);
// The first number after `key` at the start of a line: "oom_kill 3", "MemTotal:  2048 kB".
std::optional<int64_t> KeyNumber(std::string_view text, std::string_view key);

}  // namespace atl::execd
