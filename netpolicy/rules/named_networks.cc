#include "netpolicy/rules/named_networks.h"

#include <algorithm>

namespace atl::netpolicy {

// No label of a name has a slash.
std::string NetworkKey(const std::string& tenant, const std::string& name) {
  return tenant.empty() ? name : tenant + "/" + name;
}

uint32_t NamedNetworks::Join(const std::string& network, const std::string& hostname,
                             uint32_t slot) {
  Network& joined = networks_[network];
  // The counter has 32 bits, so a number does not come back while old elements may still be in the
  // kernel.
  if (joined.number == 0) joined.number = next_number_++;
  joined.members[hostname].push_back(slot);
  return joined.number;
}

void NamedNetworks::Leave(const std::string& network, const std::string& hostname, uint32_t slot) {
  const auto left = networks_.find(network);
  if (left == networks_.end()) return;
  auto& members = left->second.members;
  if (const auto member = members.find(hostname); member != members.end()) {
    std::erase(member->second, slot);
    if (member->second.empty()) members.erase(member);
  }
  if (members.empty()) networks_.erase(left);
}

const std::vector<uint32_t>* NamedNetworks::Find(const std::string& network,
                                                 std::string_view hostname) const {
  const auto found = networks_.find(network);
  if (found == networks_.end()) return nullptr;
  const auto member = found->second.members.find(hostname);
  return member == found->second.members.end() ? nullptr : &member->second;
}

Status CheckLabel(const std::string& what, const std::string& label) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (!label.empty() && label.size() <= 63 && std::all_of(label.begin(), label.end(), fits) &&
      label.front() != '-' && label.back() != '-') {
    return {};
  }
  return Fail(
      Code::kInvalidArgument,
      what + " '" + label.substr(0, 80) +
          "': use 1 to 63 lower-case letters, digits and '-', which does not stand at an end");
}

}  // namespace atl::netpolicy
