#include "runtime/tenants/audit/hidden_place.h"

#include "runtime/base/sha256.h"
#include "runtime/tenants/audit/audit_line.h"

namespace atl::audit {
namespace {

constexpr int kHalfBits = HiddenPlace::kBits / 2;
constexpr uint64_t kHalf = (uint64_t{1} << kHalfBits) - 1;
constexpr int kRounds = 6;

}  // namespace

// The round function of a Feistel network, which is one-to-one whatever this returns.
uint64_t HiddenPlace::Mix(int round, uint64_t half) const {
  const std::string digest = HmacSha256(key_, std::to_string(round) + ":" + std::to_string(half));
  uint64_t mixed = 0;
  for (int i = 0; i < 4; ++i) mixed = mixed << 8 | static_cast<unsigned char>(digest[i]);
  return mixed & kHalf;
}

uint64_t HiddenPlace::Hide(uint64_t seq) const {
  if (seq == 0) return 0;
  uint64_t left = seq >> kHalfBits & kHalf, right = seq & kHalf;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ Mix(round, right);
    left = right;
    right = next;
  }
  return left << kHalfBits | right;
}

uint64_t HiddenPlace::Find(uint64_t hidden) const {
  if (hidden == 0) return 0;
  uint64_t left = hidden >> kHalfBits & kHalf, right = hidden & kHalf;
  for (int round = kRounds - 1; round >= 0; --round) {
    const uint64_t before = right ^ Mix(round, left);
    right = left;
    left = before;
  }
  return left << kHalfBits | right;
}

std::string HiddenPlace::LineOf(std::string_view line) const {
  constexpr std::string_view kSeq = "\"seq\":", kPrev = ",\"prev\":\"";
  const auto parsed = ParseLine(line);
  const size_t number = line.find(kSeq), tail = line.rfind(kPrev);
  if (!parsed || number == line.npos || tail == line.npos) return {};
  const size_t begin = number + kSeq.size();
  const size_t end = line.find_first_not_of("0123456789", begin);
  if (end == line.npos || end > tail) return {};
  std::string shown(line.substr(0, begin));
  shown.append(std::to_string(Hide(parsed->seq))).append(line.substr(end, tail - end)).append("}");
  return shown;
}

}  // namespace atl::audit
