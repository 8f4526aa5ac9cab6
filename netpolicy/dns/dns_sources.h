// Counts what each source of questions uses and how fast it asks. The limits keep one sandbox from
// taking the name server away from others, and from carrying data out in names.
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
  uint32_t per_second = 0;  // 1 or more
  uint32_t burst = 0;       // 1 or more
};

// A token bucket, stored as the time at which it will be full.
class DnsBucket {
 public:
  // Takes a token. Returns false, and takes nothing, if the rate is exceeded.
  bool Take(const DnsRate& rate, int64_t now_us);
  bool Full(int64_t now_us) const { return full_us_ <= now_us; }

 private:
  int64_t full_us_ = 0;
};

class DnsSources {
 public:
  struct Limits {
    DnsRate questions{2000, 2000};  // all questions
    DnsRate leaving{20, 200};       // questions under a policy that need an upstream
    size_t queries = 64;            // queries in flight
    size_t connections = 8;
  };

  explicit DnsSources(Limits limits) : limits_(limits) {}

  // Each of these counts one use. They return false, and count nothing, if the source is over its
  // limit. `share`: a further limit, which depends on the current load.
  bool TakeQuestion(std::string_view source, int64_t now_us);
  bool TakeLeaving(std::string_view source, int64_t now_us);
  bool AddQuery(std::string_view source, size_t share, int64_t now_us);
  bool AddConnection(std::string_view source, size_t share, int64_t now_us);
  void RemoveQuery(std::string_view source);
  void RemoveConnection(std::string_view source);
  // Forgets a source. It must have no queries and connections left.
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
