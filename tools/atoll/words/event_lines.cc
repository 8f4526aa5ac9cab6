#include "tools/atoll/words/event_lines.h"

namespace atl::cli {

bool FeedLines(std::string* pending, std::string_view bytes,
               const std::function<bool(std::string_view line)>& take) {
  pending->append(bytes);
  size_t start = 0;
  for (size_t end = pending->find('\n'); end != std::string::npos;
       end = pending->find('\n', start)) {
    const std::string_view line(pending->data() + start, end - start);
    start = end + 1;
    if (!line.empty() && !take(line)) return false;
  }
  pending->erase(0, start);
  return true;
}

}  // namespace atl::cli
