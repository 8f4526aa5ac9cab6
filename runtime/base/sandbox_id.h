// The id of a sandbox: a version 4 UUID in lower case with hyphens. It is part of file names,
// cgroup names and URLs. A text that passes ValidSandboxId is safe in all three.
#pragma once

#include <string>
#include <string_view>

namespace atl {

inline constexpr size_t kSandboxIdSize = 36;

std::string NewSandboxId();
// Accepts exactly 8-4-4-4-12 lower-case hexadecimal digits.
bool ValidSandboxId(std::string_view id);

// Returns lower-case hexadecimal.
std::string HexEncode(std::string_view bytes);

}  // namespace atl
