// Limits the rate of wrong signatures per sandbox and source.
//
// A source is an IPv4 address or the first 48 bits of an IPv6 address (what one site has). It is
// the address of the connection, never that of a header. The table has a fixed size, and a hash
// with a secret of this process chooses the row, so a client can neither grow the table nor aim at
// the row of another client.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::api {

class GuessLimit {
 public:
  static constexpr int kBurst = 20;
  static constexpr int64_t kMillisEach = 10'000;  // time per further guess

  GuessLimit();

  // Counts a tried signature. Returns false if the source has made too many guesses; the answer
  // must then not reveal whether the signature was right. Repeating the last wrong signature is no
  // further guess, so a page that reloads an old URL locks nobody out. A `right` signature that has
  // passed before always passes.
  bool Try(std::string_view sandbox_id, std::string_view peer, std::string_view signature,
           bool right, int64_t now_ms);

  // Returns true if the next wrong guess of the source would be one too many.
  bool IsSpent(std::string_view sandbox_id, std::string_view peer, int64_t now_ms) const;

 private:
  struct Row {
    int64_t paid_until_ms = 0;  // each guess adds kMillisEach
    uint64_t last_wrong = 0;
  };
  uint64_t Hash(std::string_view what, std::string_view a, std::string_view b) const;
  size_t RowOf(std::string_view sandbox_id, std::string_view peer) const;

  const std::string secret_;
  std::array<Row, 16384> rows_;
  std::array<uint64_t, 4096> passed_{};  // hashes of right signatures only
};

}  // namespace atl::api
