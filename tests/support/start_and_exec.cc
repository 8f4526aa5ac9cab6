// Stands in for execd in tests of the spawner, and is a fake: it reads the start message from the
// control socket and becomes the entrypoint, with the control socket as its standard streams.

#include <unistd.h>

#include <string>
#include <vector>

#include "runtime/wire/start.h"

namespace {

bool ReadExactly(char* out, size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(atl::wire::kExecdControlFd, out, size);
    if (n <= 0) return false;
    out += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int main() {
  unsigned char size[4];
  if (!ReadExactly(reinterpret_cast<char*>(size), 4)) return 120;
  const unsigned length = size[0] | size[1] << 8 | size[2] << 16 | unsigned{size[3]} << 24;
  if (length > atl::wire::kMaxStartFrame) return 121;
  std::string frame(length, '\0');
  if (!ReadExactly(frame.data(), length)) return 122;
  auto message = atl::wire::DecodeStartMessage(frame);
  if (!message || message->argv.empty()) return 123;
  for (int fd = 0; fd <= 2; ++fd) ::dup2(atl::wire::kExecdControlFd, fd);
  ::execve(message->argv[0].c_str(), Pointers(message->argv).data(), Pointers(message->env).data());
  return 124;
}
