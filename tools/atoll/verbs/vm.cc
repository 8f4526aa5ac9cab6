// atoll vm prepare
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "runtime/base/sys.h"
#include "tools/atoll/archives/kernel_package.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/verbs/verbs.h"

namespace atl::cli {
namespace {

constexpr size_t kMostPackage = 256 << 20;

struct VmOptions {
  std::string directory = "/var/lib/atoll/vm";
  std::string from, archive;
};

// Writes a whole file, in place of one that may be there.
Status Put(const std::string& path, std::string_view bytes) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(folder, O_RDONLY | O_DIRECTORY));
  return sys::ReplaceFileAt(
      directory.get(), slash == std::string::npos ? path : path.substr(slash + 1), bytes, 0644);
}

Status Keep(const std::string& package, const std::string& archive) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(package, O_RDONLY));
  ATOLL_ASSIGN(const std::string bytes, sys::ReadAll(file.get(), kMostPackage));
  ATOLL_TRY(Put(archive, bytes));
  std::printf("%s: carry it to the other host, and there: atoll vm prepare --from FILE\n",
              archive.c_str());
  return {};
}

Status Install(const GuestKernel& kernel, const std::string& directory) {
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return FailSys("mkdir " + directory);
  }
  ATOLL_TRY(Put(directory + "/kernel", kernel.image));
  ATOLL_TRY(Put(directory + "/modules", kernel.modules));
  ATOLL_TRY(Put(directory + "/version", kernel.version + "\n"));
  std::printf(
      "%s: kernel %s, %zu MiB, and its modules, %zu KiB\n"
      "Restart the spawner to use them: systemctl restart atoll-spawner\n",
      directory.c_str(), kernel.version.c_str(), kernel.image.size() >> 20,
      kernel.modules.size() >> 10);
  return {};
}

Status Prepare(const VmOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const TemporaryDirectory work, TemporaryDirectory::Make());
  std::string package = options.from;
  if (package.empty()) {
    ATOLL_ASSIGN(package, DownloadKernelPackage(work.path(), cancel_fd));
  }
  if (!options.archive.empty()) return Keep(package, options.archive);
  ATOLL_ASSIGN(const GuestKernel kernel, ReadKernelPackage(package, cancel_fd));
  return Install(kernel, options.directory);
}

}  // namespace

void AddVmVerbs(Verb& root, const Settings&) {
  const auto options = std::make_shared<VmOptions>();
  Verb& group = root.Add("vm", "Virtual machines, for sandboxes with isolation microvm");
  group.Add("prepare", "Get the kernel that virtual machines boot")
      .Takes(Option{"--dir", "DIRECTORY", "Where it goes; secure_runtime.vm_dir, if that is set",
                    &options->directory})
      .Takes(Option{"--from", "FILE", "A package of --archive, in place of a download",
                    &options->from})
      .Takes(Option{"--archive", "FILE",
                    "Only save the package, for a host that reaches no archive of Debian's",
                    &options->archive})
      .Says(
          "Downloads Debian's linux-image-*-cloud-amd64 with this host's apt, which checks its\n"
          "signature, and takes kernel and modules from it. Nothing is installed. Run it again to "
          "renew\n"
          "the kernel.\n\n"
          "Examples:\n"
          "  sudo atoll vm prepare\n"
          "  atoll vm prepare --archive kernel.deb      # elsewhere, then:\n"
          "  sudo atoll vm prepare --from kernel.deb")
      .Does([options] { return Prepare(*options); });
}

}  // namespace atl::cli
