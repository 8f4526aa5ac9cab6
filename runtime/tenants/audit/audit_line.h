// One line of the audit log: JSON in a fixed order of members, chained to the line before.
//
//   {"v":1,"seq":7,"boot":"…","time":"…","action":"…", … ,"prev":"<64 hex>","hash":"<64 hex>"}
//
// The hash is SHA-256 of the 64 digits of `prev`, followed by the line from its first byte to the
// byte before `,"hash"`. `printf %s "$prev$body" | sha256sum` computes it.
//
// Thread rule: plain objects and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/tenants/audit/event.h"

namespace atl::audit {

// Longest line, newline included.
inline constexpr size_t kMaxLine = 4096;
// Digits of a hash.
inline constexpr size_t kHashDigits = 64;
// `prev` of the first line of a log.
inline constexpr std::string_view kNoHash =
    "0000000000000000000000000000000000000000000000000000000000000000";

// The place of a line in the chain.
struct Link {
  uint64_t seq = 0;
  std::string_view boot;    // hexadecimal digits: the life of the daemon
  int64_t unix_micros = 0;  // time of the event
  std::string_view prev;    // kHashDigits digits
};

// Formats lines. Texts are cut so that a line never exceeds kMaxLine; a cut text ends in "…".
// Control characters, invisible characters that change the direction of text, and bytes that are
// not UTF-8 are escaped, so a hostile text can neither end the line nor control a terminal. Reuses
// its memory.
class LineFormatter {
 public:
  // Returns the line with its newline. Valid until the next call.
  std::string_view Format(const Event& event, const Link& link);
  // Returns the hash of the last line.
  std::string_view hash() const { return {hash_.data(), hash_.size()}; }

 private:
  void Raw(std::string_view text);
  void Number(int64_t number);
  // Appends the text escaped, in at most `most` bytes.
  void Escaped(std::string_view text, size_t most);
  // Appends ,"name":"text", or nothing if the text is empty.
  void Member(std::string_view name, std::string_view text, size_t most);
  void Members(const Event& event);
  void Facts(const std::vector<Fact>& facts);

  // The digits of `prev`, then the line: contiguous, as they are hashed.
  std::array<char, kHashDigits + kMaxLine> buffer_;
  size_t size_ = 0;
  bool first_ = false;  // no comma before the next member
  std::array<char, kHashDigits> hash_{};
};

// A line taken apart. Its texts are parts of the line.
struct ParsedLine {
  uint64_t seq = 0;
  std::string_view boot;
  std::string_view time;
  std::string_view action;
  std::string_view prev;
  std::string_view hash;
  std::string_view body;  // the hashed part
};
// Takes a line (without its newline) apart by the places of its members. Nothing: no line of this
// log.
std::optional<ParsedLine> ParseLine(std::string_view line);
// Returns true if the hash of the line is that of its text.
bool HashMatches(const ParsedLine& line);

}  // namespace atl::audit
