// Checks the kernel budgets that all sandboxes share with the host
// (runtime/spawner/SHARED_BUDGETS.md).
#include <charconv>
#include <cstdint>
#include <string>

#include "runtime/base/descriptors.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/sysctl.h"

namespace atl::doctor {
namespace {

Finding CheckCrashHandler() {
  const std::string pattern = ReadSysctl("kernel/core_pattern");
  if (pattern.empty() || (pattern[0] != '|' && pattern[0] != '@')) {
    return Ok("crash handler", "none: crashes are written to files, sandboxes' to nowhere");
  }
  return Warning("crash handler",
                 "kernel.core_pattern = " + pattern +
                     ": a program of the host's root handles each crash on this host. Sandboxes "
                     "are kept from a piped one by their limit (RLIMIT_CORE = 1), from all by none",
                 "if nobody needs it: sysctl -w kernel.core_pattern=core, and keep it in "
                 "/etc/sysctl.d");
}

Finding CheckOpenFiles() {
  // A sandbox with the default 512 MiB can hold about two million open files, because each is
  // charged with at least 232 bytes (Linux 6.1).
  constexpr uint64_t kEnough = 64'000'000;
  const std::string text = ReadSysctl("fs/file-max");
  uint64_t most = 0;
  std::from_chars(text.data(), text.data() + text.size(), most);
  if (most >= kEnough) return Ok("open files", "fs.file-max = " + text);
  return Warning("open files",
                 "fs.file-max = " + text +
                     " for the whole host: a few sandboxes can open that many files, and then "
                     "every program but root's fails with ENFILE",
                 "run: sysctl -w fs.file-max=9223372036854775807 (memory limits bound it "
                 "better), and keep it in /etc/sysctl.d");
}

Finding CheckDescriptors() {
  const rlim_t low = LowDescriptorLimit();
  if (low == 0) return Ok("descriptors", "a process may open enough files");
  return Warning("descriptors",
                 "a process may open " + std::to_string(low) +
                     " files: sandboxes and streams are refused early, and snapshots, forks and "
                     "differences of deep trees fail",
                 "set LimitNOFILE of the service, or ulimit -Hn of the shell that starts atolld, "
                 "to " +
                     std::to_string(kEnoughDescriptors) + " or more");
}

}  // namespace

std::vector<Finding> CheckBudgets() {
  return {CheckCrashHandler(), CheckOpenFiles(), CheckDescriptors()};
}

}  // namespace atl::doctor
