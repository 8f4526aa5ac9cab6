#include "netpolicy/link/forwarding.h"

#include <cerrno>
#include <string>

#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

constexpr char kIpv4Forward[] = "/proc/sys/net/ipv4/ip_forward";
constexpr char kIpv6Conf[] = "/proc/sys/net/ipv6/conf";

// Returns the value without its newline, "" if it cannot be read.
std::string ReadSwitch(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, 64);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

std::string Ipv6Switch(const std::string& interface, const char* name) {
  return std::string(kIpv6Conf) + "/" + interface + "/" + name;
}

// Writes a value only if it differs: /proc/sys may be read-only on hosts whose settings are managed
// elsewhere.
Status Set(const std::string& path, const std::string& value) {
  if (ReadSwitch(path) == value) return {};
  return sys::WriteFileAt(AT_FDCWD, path, value);
}

Status KeepRouterAdvertisements() {
  ATOLL_ASSIGN(const UniqueFd conf, sys::Open(kIpv6Conf, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const std::vector<std::string> interfaces, sys::ListDir(conf.get()));
  for (const std::string& interface : interfaces) {
    const std::string path = Ipv6Switch(interface, "accept_ra");
    if (ReadSwitch(path) != "1") continue;
    Status set = Set(path, "2");
    // The interface may have disappeared meanwhile.
    if (!set && set.error().error_number() != ENOENT) return set;
  }
  return {};
}

}  // namespace

bool Ipv6Available() {
  for (const char* interface : {"lo", "default"}) {
    if (ReadSwitch(Ipv6Switch(interface, "disable_ipv6")) != "0") return false;
  }
  return true;
}

Status EnableForwarding() {
  ATOLL_TRY(Set(kIpv4Forward, "1"));
  if (!Ipv6Available()) return {};
  const std::string all = Ipv6Switch("all", "forwarding");
  if (ReadSwitch(all) == "1") return {};
  ATOLL_TRY(KeepRouterAdvertisements());
  return Set(all, "1");
}

Forwarding ReadForwarding() {
  return Forwarding{ReadSwitch(kIpv4Forward) == "1",
                    ReadSwitch(Ipv6Switch("all", "forwarding")) == "1"};
}

}  // namespace atl::netpolicy
