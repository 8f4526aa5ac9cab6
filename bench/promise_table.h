// Rows of a table that says what was measured, what is promised, and whether that was kept.
#pragma once

#include <string>

#include "bench/samples.h"

namespace atl::bench {

std::string PromiseRow(const std::string& what, const std::string& value,
                       const std::string& promise, bool kept);
// "0.11 (p99 0.21)"
std::string Quantiles(const Samples& samples);

}  // namespace atl::bench
