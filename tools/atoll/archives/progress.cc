#include "tools/atoll/archives/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr size_t kBarWidth = 30;
constexpr std::chrono::milliseconds kRedraw{100};
// A rate over a shorter time means little.
constexpr std::chrono::milliseconds kRateFrom{500};

std::string RateText(double bytes_a_second) {
  return ", " + HumanSize(static_cast<uint64_t>(bytes_a_second)) + "/s";
}

std::string TimeText(double seconds) {
  const auto whole = static_cast<uint64_t>(std::ceil(seconds));
  if (whole < 60) return std::to_string(whole) + " s left";
  return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s left";
}

}  // namespace

Progress::Progress(std::string label, uint64_t total)
    : label_(std::move(label)), total_(total), on_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::Update(uint64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || (now < next_draw_ && done < total_)) return;
  next_draw_ = now + kRedraw;
  const uint64_t whole = std::max<uint64_t>(total_, 1);
  // More bytes may arrive than expected.
  done = std::min(done, whole);
  const auto filled = static_cast<size_t>(done * kBarWidth / whole);
  std::string bar(filled, '#');
  bar.resize(kBarWidth, '.');
  std::string line = label_ + " [" + bar + "] " + std::to_string(done * 100 / whole) + "%  " +
                     HumanSize(done) + " of " + HumanSize(total_);
  const double rate = Rate(done);
  if (rate > 0) line += RateText(rate) + ", " + TimeText(static_cast<double>(whole - done) / rate);
  Draw(line);
}

void Progress::Received(uint64_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const double rate = Rate(bytes);
  Draw(label_ + "  " + HumanSize(bytes) + (rate > 0 ? RateText(rate) : ""));
}

double Progress::Rate(uint64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!first_) first_.emplace(now, done);
  const std::chrono::duration<double> passed = now - first_->first;
  if (passed < kRateFrom || done <= first_->second) return 0;
  return static_cast<double>(done - first_->second) / passed.count();
}

void Progress::Say(const std::string& text) {
  if (on_terminal_) Draw(label_ + " " + text);
}

void Progress::Draw(const std::string& line) {
  // Returns to the first column and erases the rest of the old line.
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::Clear() {
  if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
}

}  // namespace atl::cli
