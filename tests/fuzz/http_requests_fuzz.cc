// Fuzzes the stream of HTTP requests as the splice proxy reads it. The first byte chooses how the
// rest is cut into pieces. The split into heads and bodies must not depend on the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "netpolicy/splice/host_name.h"
#include "netpolicy/splice/http_requests.h"
#include "runtime/base/result.h"

namespace {

using atl::netpolicy::HttpRequests;
using atl::netpolicy::kMaxHttpHead;
using Kind = HttpRequests::Kind;

struct Seen {
  std::string kinds;  // one per accepted byte: 'h' starts a head, 'H' continues it, 'b' is body
  bool refused = false;
};

Seen Read(std::string_view bytes, size_t step) {
  HttpRequests requests;
  Seen seen;
  size_t taken = 0;
  for (size_t end = std::min(step, bytes.size());;) {
    const auto piece = requests.Take(bytes.substr(taken, end - taken));
    ATOLL_CHECK(piece.size <= end - taken);
    if (piece.kind == Kind::kRefused) {
      ATOLL_CHECK(piece.reason != nullptr);
      seen.refused = true;
      return seen;
    }
    if (piece.kind == Kind::kMore) {
      ATOLL_CHECK(end - taken < kMaxHttpHead);
      if (end == bytes.size()) return seen;
      end = std::min(end + step, bytes.size());
      continue;
    }
    ATOLL_CHECK(piece.size > 0);
    seen.kinds += std::string(piece.size, piece.kind == Kind::kHead ? 'H' : 'b');
    if (piece.kind == Kind::kHead) {
      seen.kinds[taken] = 'h';
      const auto& head = requests.head();
      const auto name = atl::netpolicy::NormalHostName(head.name);
      ATOLL_CHECK(head.name.empty() || name == head.name);
      ATOLL_CHECK(head.name.empty() || head.address.empty());
    }
    taken += piece.size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = Read(bytes, bytes.size() + 1);
  const Seen pieces = Read(bytes, size_t{data[0]} + 1);
  // If the last run of bytes is refused in one piece, its earlier pieces may still have passed.
  ATOLL_CHECK(whole.refused ? pieces.kinds.starts_with(whole.kinds) : whole.kinds == pieces.kinds);
  ATOLL_CHECK(whole.refused == pieces.refused);
  atl::netpolicy::UpgradeAnswer answer;
  (void)answer.Feed(bytes);
  return 0;
}
