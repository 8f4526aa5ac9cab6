#include "runtime/guest/modules.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/wire/initramfs.h"

namespace atl::guest {

Status LoadModules() {
  constexpr size_t kMostOrder = 64 << 10;
  ATOLL_ASSIGN(const UniqueFd folder, sys::Open(wire::vm::kModulesPath, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const std::string order,
               sys::ReadFileAt(folder.get(), wire::vm::kModuleOrder, kMostOrder));
  for (size_t at = 0; at < order.size();) {
    const size_t end = std::min(order.find('\n', at), order.size());
    const std::string name = order.substr(at, end - at);
    at = end + 1;
    ATOLL_ASSIGN(const UniqueFd module, sys::OpenAt(folder.get(), name, O_RDONLY));
    if (::syscall(SYS_finit_module, module.get(), "", 0) != 0 && errno != EEXIST) {
      return FailSys("finit_module " + name);
    }
  }
  return {};
}

}  // namespace atl::guest
