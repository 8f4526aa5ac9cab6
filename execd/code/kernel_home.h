// The directory that a kernel and execd share: its connection file and, where the kernel knows
// "ipc", its sockets.
//
// It lies in /dev/shm, because each isolated session has a /dev/shm of its own: a session sees
// neither the key of a kernel nor its sockets, whatever else of the sandbox it sees, and no
// snapshot keeps them. It belongs to the image's user, who alone may enter it; that user's programs
// may do with it what they like, so nothing here is done with more rights than theirs. Thread rule:
// the loop's.
#pragma once

#include <string>
#include <string_view>

#include "execd/core/users.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class KernelHome {
 public:
  // `user` outlives it.
  static Result<KernelHome> Make(const Identity& user);
  KernelHome(KernelHome&&) = default;
  KernelHome& operator=(KernelHome&&) = delete;
  KernelHome(const KernelHome&) = delete;
  KernelHome& operator=(const KernelHome&) = delete;
  // Removes the directory with what is named below.
  ~KernelHome();

  // Writes the connection file.
  Status Write(std::string_view text) const;
  std::string connection_file() const;
  // The "ip" of a connection file whose transport is ipc. The kernel appends a number to it.
  std::string socket_base() const;
  // A connection to the kernel's socket of that number, not blocking. ENOENT or ECONNREFUSED: the
  // kernel does not listen yet.
  Result<UniqueFd> Connect(int number) const;

 private:
  KernelHome(const Identity& user, std::string name, UniqueFd directory);

  const Identity* user_;
  std::string name_;
  UniqueFd directory_;  // invalid: moved from
};

}  // namespace atl::execd
