#include "runtime/guard/first.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/wire/start.h"

namespace atl::guard {

bool TakePass() {
  char pass[wire::kPassSize];
  return TEMP_FAILURE_RETRY(::read(wire::kExecdGateFd, pass, sizeof pass)) == sizeof pass;
}

bool PassGate() {
  char byte;
  return TEMP_FAILURE_RETRY(::read(wire::kExecdGateFd, &byte, 1)) == 1;
}

void TellFailure(std::string_view tier, const Error& error) {
  wire::StartReport report;
  report.kind = wire::StartReport::Kind::kFailed;
  report.message = "isolation " + std::string(tier) + ": " + error.message();
  const std::string frame = wire::Frame(report.Encode());
  [[maybe_unused]] const ssize_t n =
      ::send(wire::kExecdControlFd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Status KeepCapabilities(uint64_t mask) {
  // The loop ends past the last capability of this kernel.
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if ((mask >> capability & 1) == 0 && ::prctl(PR_CAPBSET_DROP, capability) != 0) {
      return FailSys("PR_CAPBSET_DROP");
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (int half = 0; half < 2; ++half) {
    data[half].effective = data[half].permitted = static_cast<uint32_t>(mask >> (32 * half));
  }
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

}  // namespace atl::guard
