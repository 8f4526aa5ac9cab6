#include "bench/samples.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "runtime/base/clock.h"

namespace atl::bench {

int64_t NowMicros() {
  return SystemClock().BootMicros();
}

void Rest(int milliseconds) {
  ::poll(nullptr, 0, milliseconds);
}

double Samples::Quantile(double fraction) const {
  if (ms_.empty()) return 0;
  std::vector<double> sorted = ms_;
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  const size_t index = std::min(sorted.size(), std::max<size_t>(1, static_cast<size_t>(rank))) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(index),
                   sorted.end());
  return sorted[index];
}

std::string Fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

}  // namespace atl::bench
