// Numbers in the kernel's text files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::execd {

// Parses a decimal number with optional blanks or a newline around it. Returns nullopt for anything
// else, "max" included.
std::optional<int64_t> ToNumber(std::string_view text);
// Returns the first number after `key` at the start of a line: "oom_kill 3", "MemTotal:  2048 kB".
std::optional<int64_t> KeyNumber(std::string_view text, std::string_view key);

}  // namespace atl::execd
