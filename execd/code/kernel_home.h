// The directory that a kernel and execd share. It holds the connection file and, if the kernel
// supports the "ipc" transport, the kernel's sockets.
//
// The directory lies in /dev/shm, because each isolated session has its own /dev/shm. So a session
// sees neither the key nor the sockets of a kernel, whatever else of the sandbox it sees, and no
// snapshot contains them. The image's user owns the directory, and only that user may enter it.
// Programs of that user can change it at will, so execd accesses it with the rights of that user
// only.
//
// Thread rule: the event loop's thread.
#pragma once

#include <string>
#include <string_view>

#include "execd/core/users.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class KernelHome {
 public:
  // `user` is borrowed and must outlive the object.
  static Result<KernelHome> Make(const Identity& user);
  KernelHome(KernelHome&&) = default;
  KernelHome& operator=(KernelHome&&) = delete;
  KernelHome(const KernelHome&) = delete;
  KernelHome& operator=(const KernelHome&) = delete;
  // Removes the connection file, the sockets and the directory.
  ~KernelHome();

  // Writes the connection file.
  Status Write(std::string_view text) const;
  std::string connection_file() const;
  // Returns the "ip" member of a connection file whose transport is ipc. The kernel appends a
  // number to it.
  std::string socket_base() const;
  // Returns a non-blocking connection to the kernel's socket with that number. ENOENT or
  // ECONNREFUSED: the kernel does not listen yet.
  Result<UniqueFd> Connect(int number) const;

 private:
  KernelHome(const Identity& user, std::string name, UniqueFd directory);

  const Identity* user_;
  std::string name_;
  UniqueFd directory_;  // invalid: moved from
};

}  // namespace atl::execd
