#include "runtime/base/signal_word.h"

#include <string.h>

#include <charconv>
#include <string>

namespace atl {
namespace {

// Returns -1 if the text is not a number.
int DecimalOf(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

int SignalNumber(std::string_view text) {
  std::string name(text);
  if (const int number = DecimalOf(name); number > 0 && number < NSIG) return number;
  if (::strncasecmp(name.c_str(), "SIG", 3) == 0) name.erase(0, 3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = ::sigabbrev_np(number);
    if (known != nullptr && ::strcasecmp(name.c_str(), known) == 0) return number;
  }
  // Images with systemd are stopped by SIGRTMIN+3.
  if (::strncasecmp(name.c_str(), "RTMIN", 5) != 0) return 0;
  const int beyond = name.size() == 5 ? 0 : name[5] == '+' ? DecimalOf(name.substr(6)) : -1;
  return beyond >= 0 && beyond <= SIGRTMAX - SIGRTMIN ? SIGRTMIN + beyond : 0;
}

}  // namespace atl
