// What each source of questions uses and how fast it asks: the limits that keep one sandbox from
// taking the name server away from the others, or from carrying data out in names.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace atl::netpolicy {

struct DnsRate {
  uint32_t per_second = 0;  // at least 1
  uint32_t burst = 0;       // at least 1
};

// A token bucket. It holds only the time at which it is full again.
class DnsBucket {
 public:
  // False: too fast, nothing is taken.
  bool Take(const DnsRate& rate, int64_t now_us);
  bool Full(int64_t now_us) const { return full_us_ <= now_us; }

 private:
  int64_t full_us_ = 0;
};

class DnsSources {
 public:
  struct Limits {
    DnsRate questions{2000, 2000};  // all of them
    DnsRate leaving{20, 200};       // those under a policy for which the network has to be asked
    size_t queries = 64;            // under way
    size_t connections = 8;
  };

  explicit DnsSources(Limits limits) : limits_(limits) {}

  // False: over the limit, nothing is counted. `share`: another limit, of now.
  bool TakeQuestion(std::string_view source, int64_t now_us);
  bool TakeLeaving(std::string_view source, int64_t now_us);
  bool AddQuery(std::string_view source, size_t share, int64_t now_us);
  bool AddConnection(std::string_view source, size_t share, int64_t now_us);
  void RemoveQuery(std::string_view source);
  void RemoveConnection(std::string_view source);
  // As if it had never asked; its queries and connections are gone already.
  void Forget(std::string_view source);

  size_t size() const { return sources_.size(); }

 private:
  struct Usage {
    DnsBucket questions, leaving;
    size_t queries = 0;
    size_t connections = 0;
  };
  Usage& At(std::string_view source, int64_t now_us);
  void Sweep(int64_t now_us);

  Limits limits_;
  std::map<std::string, Usage, std::less<>> sources_;
  size_t sweep_at_ = 0;
};

}  // namespace atl::netpolicy
