#include "runtime/objects/hand_over.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "runtime/base/sys.h"

namespace atl::objects {
namespace {

// The number of the descriptor, set by the spawner and inherited through the file system's program.
constexpr int kFuse = 3;

}  // namespace

int HandOver() {
  // libfuse's convention (mount_util of versions 2 and 3): the number of the socket to send it to.
  const char* const number = std::getenv("_FUSE_COMMFD");
  if (number == nullptr) return 0;
  const std::string_view text(number);
  int socket = -1;
  std::from_chars(text.data(), text.data() + text.size(), socket);
  const int fds[] = {kFuse};
  return sys::SendMessage(socket, std::string_view("", 1), fds) ? 0 : 1;
}

}  // namespace atl::objects
