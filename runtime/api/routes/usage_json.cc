#include "runtime/api/routes/usage_json.h"

#include <nlohmann/json.hpp>

namespace atl::api {
namespace {

using tenants::Amounts;

constexpr double kMicros = 1e6;
constexpr double kKibMsOfGibSecond = 1024.0 * 1024.0 * 1000.0;
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

double GibSeconds(int64_t kib_ms) {
  return static_cast<double>(kib_ms) / kKibMsOfGibSecond;
}

double CostOf(const Amounts& used, const Prices& prices) {
  constexpr double kHour = 3600;
  return (Seconds(used.cpu_us) * prices.cpu_hour +
          Seconds(used.cpu_reserved_us) * prices.cpu_reserved_hour +
          GibSeconds(used.memory_kib_ms) * prices.memory_gib_hour +
          GibSeconds(used.memory_reserved_kib_ms) * prices.memory_reserved_gib_hour +
          GibSeconds(used.disk_kib_ms) * prices.disk_gib_hour +
          GibSeconds(used.snapshot_kib_ms) * prices.snapshots_gib_hour +
          Seconds(used.parked_us) * prices.parked_hour) /
             kHour +
         static_cast<double>(used.bytes_in + used.bytes_out) / kGib * prices.network_gib;
}

}  // namespace

double Seconds(int64_t micros) {
  return static_cast<double>(micros) / kMicros;
}

nlohmann::json UsageJson(const Amounts& used, const Prices& prices) {
  nlohmann::json told = {{"cpu_seconds", Seconds(used.cpu_us)},
                         {"cpu_reserved_seconds", Seconds(used.cpu_reserved_us)},
                         {"memory_used_gib_seconds", GibSeconds(used.memory_kib_ms)},
                         {"memory_reserved_gib_seconds", GibSeconds(used.memory_reserved_kib_ms)},
                         {"network_bytes", {{"in", used.bytes_in}, {"out", used.bytes_out}}},
                         {"io_bytes", {{"read", used.read_bytes}, {"written", used.written_bytes}}},
                         {"disk_gib_seconds", GibSeconds(used.disk_kib_ms)},
                         {"commands", used.commands},
                         {"creates", used.creates},
                         {"snapshots_gib_seconds", GibSeconds(used.snapshot_kib_ms)},
                         {"parked_seconds", Seconds(used.parked_us)}};
  if (!prices.currency.empty()) told["cost"] = CostOf(used, prices);
  return told;
}

}  // namespace atl::api
