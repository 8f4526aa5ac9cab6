// The system calls of a sandbox that depend on their arguments, as far as a filter sees them: in
// registers, not behind pointers.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/spawner/rules/seccomp.h"

namespace atl::spawner {

// The argument that carries the pass (seccomp.h): the sixth, which none of the calls takes that ask
// for it.
inline constexpr unsigned kPassArgument = 5;
// What stands in the program until the pass is known, and nowhere else in it.
inline constexpr uint32_t kPassLow = 0x9c5e1f07;
inline constexpr uint32_t kPassHigh = 0xe3a8b6d1;

// Of the seccomp_data, at `offset`, into the accumulator; and the end of the program.
inline sock_filter Load(uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
inline sock_filter Return(uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

// What judges the call, from any accumulator to a verdict; nullopt for a call that is allowed or
// refused whatever its arguments (syscall_list.h).
std::optional<BpfProgram> CheckArguments(uint32_t number);

}  // namespace atl::spawner
