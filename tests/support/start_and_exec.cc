// A fake execd for tests of the spawner. It waits at the gate, reads the start message from the
// control socket and becomes the entrypoint, with the control socket as its standard streams.

#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "execd/gate.h"
#include "runtime/wire/start.h"

namespace {

bool ReadExactly(int control, char* out, size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(control, out, size);
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

int main(int argc, char** argv) {
  // Exits with 2 for any other argument, as execd does. A spawner that is about to take over tests
  // execd with a flag that execd does not know.
  if (argc != 2 || std::string_view(argv[1]) != "--enter-root=1") return 2;
  if (!atl::execd::PassGate(true, true)) return 119;
  constexpr int control = atl::wire::kExecdControlFd;
  unsigned char size[4];
  if (!ReadExactly(control, reinterpret_cast<char*>(size), 4)) return 120;
  const unsigned length = size[0] | size[1] << 8 | size[2] << 16 | unsigned{size[3]} << 24;
  if (length > atl::wire::kMaxStartFrame) return 121;
  std::string frame(length, '\0');
  if (!ReadExactly(control, frame.data(), length)) return 122;
  auto message = atl::wire::DecodeStartMessage(frame);
  if (!message || message->argv.empty()) return 123;
  for (int fd = 0; fd <= 2; ++fd) ::dup2(control, fd);
  ::execve(message->argv[0].c_str(), Pointers(message->argv).data(), Pointers(message->env).data());
  return 124;
}
