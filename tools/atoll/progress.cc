#include "tools/atoll/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tools/atoll/text.h"

namespace atl::cli {
namespace {

constexpr size_t kBarWidth = 30;
constexpr std::chrono::milliseconds kRedraw{100};

}  // namespace

Progress::Progress(std::string label, uint64_t total)
    : label_(std::move(label)), total_(total), on_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::Update(uint64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || (now < next_draw_ && done < total_)) return;
  next_draw_ = now + kRedraw;
  const uint64_t whole = std::max<uint64_t>(total_, 1);
  const auto filled = static_cast<size_t>(done * kBarWidth / whole);
  std::string bar(filled, '#');
  bar.resize(kBarWidth, '.');
  Draw(label_ + " [" + bar + "] " + std::to_string(done * 100 / whole) + "%  " + HumanSize(done) +
       " of " + HumanSize(total_));
}

void Progress::Received(uint64_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || now < next_draw_) return;
  next_draw_ = now + kRedraw;
  Draw(label_ + "  " + HumanSize(bytes));
}

void Progress::Say(const std::string& text) {
  if (on_terminal_) Draw(label_ + " " + text);
}

void Progress::Draw(const std::string& line) {
  // Back to the first column, and the rest of the old line erased.
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::Clear() {
  if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
}

}  // namespace atl::cli
