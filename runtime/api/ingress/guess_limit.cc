#include "runtime/api/ingress/guess_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/sha256.h"
#include "runtime/base/sys.h"

namespace atl::api {
namespace {

constexpr size_t kSiteBytes = 6;  // the part of an IPv6 address that identifies a site

// Returns the source of a peer such as "192.0.2.1:80" or "[2001:db8::1]:80".
std::string SourceOf(std::string_view peer) {
  std::string address(peer.substr(0, peer.rfind(':')));
  if (!address.starts_with('[')) return address;
  address = address.substr(1, address.find_first_of("]%") - 1);
  in6_addr bytes{};
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return address;
  const bool v4 = IN6_IS_ADDR_V4MAPPED(&bytes) || IN6_IS_ADDR_LOOPBACK(&bytes);
  return {reinterpret_cast<const char*>(&bytes), v4 ? sizeof bytes : kSiteBytes};
}

// Clamped, so that a clock that was set back does not lock anybody out for longer.
int64_t Owed(int64_t paid_until_ms, int64_t now_ms) {
  return std::clamp<int64_t>(paid_until_ms - now_ms, 0,
                             GuessLimit::kBurst * GuessLimit::kMillisEach);
}

}  // namespace

GuessLimit::GuessLimit() : secret_(sys::RandomBytes(16)) {}

uint64_t GuessLimit::Hash(std::string_view what, std::string_view a, std::string_view b) const {
  std::string text = secret_;
  text.append(what).append(a).append("\n").append(b);
  const std::string digest = Sha256(text);
  uint64_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return std::max<uint64_t>(hash, 1);  // 0 marks an empty place
}

size_t GuessLimit::RowOf(std::string_view sandbox_id, std::string_view peer) const {
  return Hash("source", sandbox_id, SourceOf(peer)) % rows_.size();
}

bool GuessLimit::IsSpent(std::string_view sandbox_id, std::string_view peer, int64_t now_ms) const {
  return Owed(rows_[RowOf(sandbox_id, peer)].paid_until_ms, now_ms) > (kBurst - 1) * kMillisEach;
}

bool GuessLimit::Try(std::string_view sandbox_id, std::string_view peer, std::string_view signature,
                     bool right, int64_t now_ms) {
  const uint64_t tried = Hash("tried", sandbox_id, signature);
  uint64_t& passed = passed_[tried % passed_.size()];
  if (right && passed == tried) return true;
  Row& row = rows_[RowOf(sandbox_id, peer)];
  const int64_t owed = Owed(row.paid_until_ms, now_ms);
  if (!right && row.last_wrong == tried) return true;
  if (owed > (kBurst - 1) * kMillisEach) return false;
  if (right) {
    passed = tried;
    return true;
  }
  row.paid_until_ms = now_ms + owed + kMillisEach;
  row.last_wrong = tried;
  return true;
}

}  // namespace atl::api
