// A bar for what takes long, on stderr if that is a terminal, redrawn at most ten times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace atl::cli {

class Progress {
 public:
  Progress(std::string label, uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { Clear(); }

  void Update(uint64_t done);
  // For what comes without a length.
  void Received(uint64_t bytes);
  // Replaces the bar by a text, for work whose length is not known.
  void Say(const std::string& text);
  void Clear();

 private:
  void Draw(const std::string& line);

  const std::string label_;
  const uint64_t total_;
  const bool on_terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

}  // namespace atl::cli
