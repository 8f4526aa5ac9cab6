// Watches for changes that other programs make to our table, the links and routes of sandboxes, the
// gateway's addresses and forwarding.
//
// It has two netlink sockets in the kernel's multicast groups. A socket filter passes only foreign
// changes of rules, and only removals in the network. Therefore the daemon's own work for a create
// never wakes it.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

struct nlmsghdr;

namespace atl::netpolicy {

// Things that may have been changed.
struct FenceChanges {
  bool table = false;
  std::string by;     // the program that changed the rules, "nft (pid 12)", if the kernel named it
  bool host = false;  // the gateway's addresses, or forwarding
  std::set<uint32_t> slots;  // slots whose link, route, neighbour or rate was changed
  std::set<uint32_t> gone;   // slots whose link was deleted, and perhaps made anew since
  bool all_slots = false;    // events were lost, so any slot may have changed

  bool any() const { return table || host || all_slots || !slots.empty() || !gone.empty(); }
};

class FenceWatch {
 public:
  // `own_portid`: the netlink port of the socket that commits our own changes of the rules. Needs
  // CAP_NET_ADMIN.
  static Result<std::unique_ptr<FenceWatch>> Open(uint32_t instance, uint32_t own_portid);
  FenceWatch(const FenceWatch&) = delete;
  FenceWatch& operator=(const FenceWatch&) = delete;
  ~FenceWatch();

  using OnChange = std::function<void(const FenceChanges&)>;
  void Start(Loop& loop, OnChange on_change);

 private:
  FenceWatch(uint32_t instance, UniqueFd rules, UniqueFd links)
      : instance_(instance), rules_(std::move(rules)), links_(std::move(links)) {}
  void ReadRules();
  void ReadLinks();
  void AddRuleMessage(const nlmsghdr* message, FenceChanges* changes) const;
  void AddLinkMessage(const nlmsghdr* message, FenceChanges* changes) const;

  const uint32_t instance_;
  UniqueFd rules_;
  UniqueFd links_;
  Loop* loop_ = nullptr;
  Loop::Id rules_watch_ = 0, links_watch_ = 0;
  OnChange on_change_;
};

}  // namespace atl::netpolicy
