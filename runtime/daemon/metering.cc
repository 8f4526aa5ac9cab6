#include "runtime/daemon/metering.h"

#include <fcntl.h>
#include <linux/netlink.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cgroup/meters.h"
#include "cgroup/tree.h"
#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/directories.h"

namespace atl::daemon {

Result<sandbox::Meter::Sources> MeterSources(const Config& config, const wire::Greeting& hello,
                                             const cgroup::Host& host) {
  sandbox::Meter::Sources sources;
  if (config.usage_keep_days == 0) return sources;
  ATOLL_ASSIGN(std::string boot, sys::ReadFileAt(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64));
  boot.resize(std::min(boot.size(), boot.find('\n')));
  ATOLL_ASSIGN(std::unique_ptr<tenants::Ledger> ledger,
               tenants::Ledger::Open(StateDir(config) + "/usage.db", boot,
                                     {.keep_hours = int64_t{config.usage_keep_days} * 24},
                                     SystemClock().Now()));
  sources.ledger = std::move(ledger);
  const std::string groups = hello.cgroup_path;
  sources.read = [host, groups](uint32_t slot) {
    return cgroup::ReadMeters(host, groups, "s" + std::to_string(slot));
  };
  sources.read_host_cpu = [groups] { return cgroup::CpuMicrosOf(groups); };
  // A socket of its own, because the meter's thread uses it.
  ATOLL_ASSIGN(UniqueFd opened, netpolicy::OpenNetlink(NETLINK_ROUTE));
  const auto socket = std::make_shared<UniqueFd>(std::move(opened));
  sources.read_links = [socket, instance = hello.instance] {
    std::map<uint32_t, sandbox::Meter::LinkBytes> bytes;
    auto links = netpolicy::ReadSlotCounters(socket->get(), instance);
    if (!links) {
      LogLine(LogLevel::kWarning, "cannot read the bytes of links").Add(links.error());
      return bytes;
    }
    // The host's end receives what the sandbox sends.
    for (const auto& [slot, link] : *links) bytes[slot] = {link.tx_bytes, link.rx_bytes};
    return bytes;
  };
  return sources;
}

api::Prices PricesOf(const Config& config) {
  const auto price = [](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  return {.currency = config.prices_currency,
          .cpu_hour = price(config.price_cpu_hour),
          .cpu_reserved_hour = price(config.price_cpu_reserved_hour),
          .memory_gib_hour = price(config.price_memory_gib_hour),
          .memory_reserved_gib_hour = price(config.price_memory_reserved_gib_hour),
          .disk_gib_hour = price(config.price_disk_gib_hour),
          .network_gib = price(config.price_network_gib),
          .snapshots_gib_hour = price(config.price_snapshots_gib_hour),
          .parked_hour = price(config.price_parked_hour)};
}

}  // namespace atl::daemon
