#include "netpolicy/dns/dns_upstreams.h"

#include <algorithm>
#include <cstring>

#include "netpolicy/address/ports.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

constexpr size_t kMaxServers = 8;
constexpr size_t kMaxResolvConf = size_t{64} * 1024;

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

bool Same(const Endpoint& a, const Endpoint& b) {
  return a.size == b.size && std::memcmp(&a.address, &b.address, a.size) == 0;
}

}  // namespace

std::vector<Endpoint> ParseResolvConf(std::string_view text) {
  constexpr std::string_view kKeyword = "nameserver";
  constexpr std::string_view kBlank = " \t\r";
  std::vector<Endpoint> servers;
  while (!text.empty() && servers.size() < kMaxServers) {
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (line.substr(0, kKeyword.size()) != kKeyword) continue;
    line.remove_prefix(kKeyword.size());
    const size_t begin = line.find_first_not_of(kBlank);
    if (begin == 0 || begin == std::string_view::npos) continue;
    const std::string address(line.substr(begin, line.find_first_of(kBlank, begin) - begin));
    if (auto server = ParseEndpoint(address, kDnsPort)) servers.push_back(*server);
  }
  return servers;
}

Result<DnsUpstreams> DnsUpstreams::Make(const std::vector<std::string>& configured,
                                        std::string resolv_conf, std::vector<Endpoint> own) {
  DnsUpstreams upstreams;
  upstreams.own_ = std::move(own);
  if (configured.empty()) {
    upstreams.resolv_conf_ = std::move(resolv_conf);
    return upstreams;
  }
  std::vector<Endpoint> list;
  for (const std::string& text : configured) {
    auto server = ParseEndpoint(text, kDnsPort);
    if (!server) return Fail(std::move(server).error().Wrap("DNS upstream"));
    list.push_back(*server);
  }
  upstreams.Keep(list);
  return upstreams;
}

void DnsUpstreams::Keep(const std::vector<Endpoint>& list) {
  current_.clear();
  for (const Endpoint& server : list) {
    const auto same = [&](const Endpoint& other) { return Same(server, other); };
    if (std::none_of(own_.begin(), own_.end(), same)) current_.push_back(server);
  }
}

const std::vector<Endpoint>& DnsUpstreams::Current() {
  if (!resolv_conf_.empty()) Reread();
  return current_;
}

void DnsUpstreams::Reread() {
  // One stat(2) per query takes a microsecond. inotify would have to watch the directory as well,
  // because the file is usually replaced and may be a symbolic link.
  struct stat now {};
  if (::stat(resolv_conf_.c_str(), &now) != 0) {
    current_.clear();
    seen_ = {};
    return;
  }
  if (SameFile(now, seen_)) return;
  auto text = sys::ReadFileAt(AT_FDCWD, resolv_conf_, kMaxResolvConf);
  if (!text) return;
  seen_ = now;
  Keep(ParseResolvConf(*text));
}

void DnsUpstreams::Demote(const Endpoint& failed) {
  // Only the first resolver is demoted: if it fails, several queries fail at the same time.
  if (current_.size() > 1 && Same(current_.front(), failed)) {
    std::rotate(current_.begin(), current_.begin() + 1, current_.end());
  }
}

}  // namespace atl::netpolicy
