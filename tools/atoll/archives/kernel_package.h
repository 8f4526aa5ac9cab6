// Debian's packages of kernels for virtual machines (linux-image-*-cloud-amd64), which are unpacked
// and never installed.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/child.h"

namespace atl::cli {

// Downloads the newest one that this host's apt knows into `directory`, which only root may write.
// apt has checked its signature. Returns its path.
Result<std::string> DownloadKernelPackage(const std::string& directory, int cancel_fd);

// Files that a virtual machine boots with.
struct GuestKernel {
  std::string version;  // such as 6.1.0-56-cloud-amd64
  std::string image;    // an ELF file, so that no machine decompresses it at its start
  std::string modules;  // an archive for its first root (runtime/wire/initramfs.h)
};

// Takes them from a package. An unprivileged process unpacks it, in a directory of its own in
// TMPDIR or /var/tmp.
Result<GuestKernel> ReadKernelPackage(const std::string& package, int cancel_fd);

// The parts of it that need no package, for tests.

// Returns a value of a module's description, such as "depends"; empty if it has none.
std::string ModuleInfo(std::string_view module, std::string_view key);

// The compressed kernel within a bzImage, and the program that decompresses it.
struct Payload {
  std::string_view bytes;
  std::string program;  // "lz4"
  std::string suffix;   // ".lz4", by which the program knows its files
  std::string package;  // Debian's, of the program
};
Result<Payload> PayloadOf(std::string_view bzimage);

}  // namespace atl::cli
