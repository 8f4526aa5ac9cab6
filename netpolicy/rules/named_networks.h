// Named networks: sandboxes that may reach each other, and the names by which they do.
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

// Returns the key of a network by its owner and its name. Networks of one name that belong to two
// tenants have nothing in common.
std::string NetworkKey(const std::string& tenant, const std::string& name);

// `network`: a NetworkKey.
class NamedNetworks {
 public:
  // Adds a slot and returns the network's number, which does not change while the network has
  // members. Several members may share a host name.
  uint32_t Join(const std::string& network, const std::string& hostname, uint32_t slot);
  void Leave(const std::string& network, const std::string& hostname, uint32_t slot);
  // Returns the slots of a host name. Null if the network has no such name.
  const std::vector<uint32_t>* Find(const std::string& network, std::string_view hostname) const;

 private:
  struct Network {
    uint32_t number = 0;
    std::map<std::string, std::vector<uint32_t>, std::less<>> members;
  };
  std::map<std::string, Network> networks_;
  uint32_t next_number_ = 1;
};

// Checks a label of a name: 1 to 63 letters, digits and '-', without '-' at the ends. `what` names
// the thing in the error.
Status CheckLabel(const std::string& what, const std::string& label);

}  // namespace atl::netpolicy
