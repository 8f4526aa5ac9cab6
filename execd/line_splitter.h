// Output, cut into lines as the event stream has them.
#pragma once

#include <string>
#include <string_view>

namespace atl::execd {

// Cuts an output stream into event texts: at \n, \r and \r\n, without the terminator; an empty line
// is the text "\n". A line over kMaxLine is cut between two characters (Go's client reads lines of
// at most 4 MiB, and a byte may take six in JSON).
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 128 << 10;

  // Calls emit(text) for each line that ends in `bytes`.
  template <typename F>
  void Feed(std::string_view bytes, F emit) {
    std::string_view line;
    while (Next(&bytes, &line)) emit(line);
  }
  // The unterminated rest, if any.
  template <typename F>
  void End(F emit) {
    if (!partial_.empty()) emit(std::string_view(partial_));
    partial_.clear();
  }

 private:
  bool Next(std::string_view* bytes, std::string_view* line);
  std::string partial_, joined_;
  bool skip_newline_ = false;
};

}  // namespace atl::execd
