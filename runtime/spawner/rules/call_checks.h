// The system calls of a sandbox that depend on their arguments, as far as a filter sees them: in
// registers, not behind pointers.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/spawner/rules/seccomp.h"

namespace atl::spawner {

// The argument that carries the pass (seccomp.h): the sixth, because the calls that need the pass
// take no sixth argument.
inline constexpr unsigned kPassArgument = 5;
// Placeholders in the program until the pass is known; these values occur nowhere else in it.
inline constexpr uint32_t kPassLow = 0x9c5e1f07;
inline constexpr uint32_t kPassHigh = 0xe3a8b6d1;

// Instructions that load the word of seccomp_data at `offset` into the accumulator, and that end
// the program.
inline sock_filter Load(uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
inline sock_filter Return(uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

// Returns the instructions that judge the call, from any accumulator to a verdict. nullopt: the
// call is allowed or refused whatever its arguments (syscall_list.h).
std::optional<BpfProgram> CheckArguments(uint32_t number);

}  // namespace atl::spawner
