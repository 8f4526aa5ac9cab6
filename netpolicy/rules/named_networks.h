// Named networks: sandboxes that may reach each other, and by which names they do.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::netpolicy {

class NamedNetworks {
 public:
  // The network's number, which is its own as long as it has members. A host name may be that of
  // several members.
  uint32_t Join(const std::string& network, const std::string& hostname, uint32_t slot);
  void Leave(const std::string& network, const std::string& hostname, uint32_t slot);
  // The slots of a host name; null if the network has none of that name.
  const std::vector<uint32_t>* Find(const std::string& network, std::string_view hostname) const;

 private:
  struct Network {
    uint32_t number = 0;
    std::map<std::string, std::vector<uint32_t>, std::less<>> members;
  };
  std::map<std::string, Network> networks_;
  uint32_t next_number_ = 1;
};

// 1 to 63 letters, digits and '-', not at the ends: what stands in a name as a label. The text says
// what `what` has to be.
Status CheckLabel(const std::string& what, const std::string& label);

}  // namespace atl::netpolicy
