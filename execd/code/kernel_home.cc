#include "execd/code/kernel_home.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "execd/code/kernel_ports.h"
#include "execd/core/core.h"
#include "runtime/base/own_directory.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"

namespace atl::execd {
namespace {

constexpr const char* kParent = "/dev/shm";
constexpr const char* kConnectionFile = "connection.json";
constexpr std::string_view kSockets = "socket";
// Separator between base and number: most kernels use that of Jupyter, some that of TCP addresses.
constexpr char kMarks[] = {'-', ':'};

std::string SocketName(char mark, int number) {
  return std::string(kSockets) + mark + std::to_string(number);
}

}  // namespace

KernelHome::KernelHome(const Identity& user, std::string name, UniqueFd directory)
    : user_(&user), name_(std::move(name)), directory_(std::move(directory)) {}

Result<KernelHome> KernelHome::Make(const Identity& user) {
  const FileIdentity as(user);
  ATOLL_ASSIGN(const UniqueFd parent, sys::Open(kParent, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  std::string name = ".execd-kernel-" + NewUuid(false);
  auto directory = MakeOwnDirectory(parent.get(), name, 0700);
  if (directory) return KernelHome(user, std::move(name), std::move(*directory));
  return Fail(std::move(directory).error().Wrap(std::string("a kernel's directory in ") + kParent));
}

KernelHome::~KernelHome() {
  if (!directory_) return;
  const FileIdentity as(*user_);
  ::unlinkat(directory_.get(), kConnectionFile, 0);
  for (const char mark : kMarks) {
    for (int number = 1; number <= KernelPorts::kCount; ++number) {
      ::unlinkat(directory_.get(), SocketName(mark, number).c_str(), 0);
    }
  }
  ::rmdir((std::string(kParent) + "/" + name_).c_str());
}

Status KernelHome::Write(std::string_view text) const {
  const FileIdentity as(*user_);
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(directory_.get(), kConnectionFile,
                                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  return sys::WriteAll(file.get(), text);
}

std::string KernelHome::connection_file() const {
  return std::string(kParent) + "/" + name_ + "/" + kConnectionFile;
}

std::string KernelHome::socket_base() const {
  return std::string(kParent).append("/").append(name_).append("/").append(kSockets);
}

Result<UniqueFd> KernelHome::Connect(int number) const {
  const FileIdentity as(*user_);
  UniqueFd file;
  for (const char mark : kMarks) {
    if (file) break;
    file.reset(::openat(directory_.get(), SocketName(mark, number).c_str(),
                        O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!file) return FailSys("open the kernel's socket");
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat the kernel's socket");
  // A link, or a socket of another user, could make execd talk to another program.
  if (!S_ISSOCK(info.st_mode) || info.st_uid != user_->uid) {
    return Fail(Code::kPermissionDenied, "what is there is no socket of the kernel's");
  }
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return FailSys("socket");
  // Connects to the inode that was checked, even if its name now means another file.
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(sys::FdPath(file.get())));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect to the kernel");
  }
  return socket;
}

}  // namespace atl::execd
