// A progress bar with rate and remaining time. It is drawn on stderr if that is a terminal, at most
// ten times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace atl::cli {

class Progress {
 public:
  Progress(std::string label, uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { Clear(); }

  void Update(uint64_t done);
  // Shows the bytes received so far, for a transfer of unknown length.
  void Received(uint64_t bytes);
  // Shows a text instead of the bar, for work of unknown length.
  void Say(const std::string& text);
  void Clear();

 private:
  void Draw(const std::string& line);
  // Returns bytes per second since the first update; 0: not known yet.
  double Rate(uint64_t done);

  const std::string label_;
  const uint64_t total_;
  const bool on_terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
  std::optional<std::pair<std::chrono::steady_clock::time_point, uint64_t>> first_;
};

}  // namespace atl::cli
