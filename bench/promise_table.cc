#include "bench/promise_table.h"

namespace atl::bench {

std::string PromiseRow(const std::string& what, const std::string& value,
                       const std::string& promise, bool kept) {
  return "| " + what + " | " + value + " | " + promise + " | " + (kept ? "yes" : "**no**") + " |\n";
}

std::string Quantiles(const Samples& samples) {
  return Fixed(samples.p50(), 2) + " (p99 " + Fixed(samples.p99(), 2) + ")";
}

}  // namespace atl::bench
