// Bounds how fast wrong signatures may be tried, for each sandbox and source.
//
// A source is an IPv4 address or the first 48 bits of an IPv6 one (what one site has), as the
// connection has it, not as a header says. The table has a fixed size: its rows are chosen by a
// hash with a secret of this process, so nobody can grow it or aim at the row of another. Thread
// rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::api {

class GuessLimit {
 public:
  static constexpr int kBurst = 20;
  static constexpr int64_t kMillisEach = 10'000;  // until one more is allowed

  GuessLimit();

  // What a signature that was tried is measured by. The same wrong one again is no further guess:
  // a page with an old URL that reloads itself shuts nobody out. `right` ones that passed before
  // always do. False: too many; the answer must not tell whether it was right.
  bool Try(std::string_view sandbox_id, std::string_view peer, std::string_view signature,
           bool right, int64_t now_ms);

 private:
  struct Row {
    int64_t paid_until_ms = 0;  // each guess puts this off by kMillisEach
    uint64_t last_wrong = 0;
  };
  uint64_t Hash(std::string_view what, std::string_view a, std::string_view b) const;

  const std::string secret_;
  std::array<Row, 16384> rows_;
  std::array<uint64_t, 4096> passed_{};  // hashes of right signatures; only they get in here
};

}  // namespace atl::api
