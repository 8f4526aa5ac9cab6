#include "execd/files/glob.h"

#include <cstdint>

namespace atl::execd {
namespace {

constexpr size_t kMaxAlternatives = 256;
constexpr size_t kMaxPattern = 4096;

// Returns the character at text[*at] and advances `*at`. A byte that is not UTF-8 counts as a
// character.
uint32_t NextChar(std::string_view text, size_t* at) {
  const auto lead = static_cast<unsigned char>(text[*at]);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t value = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto tail = *at + i < text.size() ? static_cast<unsigned char>(text[*at + i]) : 0U;
    if ((tail & 0xC0U) != 0x80U) {
      ++*at;
      return 0x110000U + lead;
    }
    value = (value << 6) | (tail & 0x3FU);
  }
  *at += length;
  return value;
}

// Returns the position of the ']' that ends the class at `at`, or npos.
size_t ClassEnd(std::string_view pattern, size_t at) {
  size_t i = at + 1;
  if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) ++i;
  bool first = true;
  for (; i < pattern.size(); ++i, first = false) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == ']' && !first) {
      return i;
    }
  }
  return std::string_view::npos;
}

bool ClassMatches(std::string_view members, uint32_t c) {
  bool negated = false;
  size_t at = 0;
  if (!members.empty() && (members[0] == '!' || members[0] == '^')) {
    negated = true;
    at = 1;
  }
  bool in = false;
  const auto take = [&] {
    if (members[at] == '\\' && at + 1 < members.size()) ++at;
    return NextChar(members, &at);
  };
  while (at < members.size()) {
    const uint32_t low = take();
    uint32_t high = low;
    if (at + 1 < members.size() && members[at] == '-') {
      ++at;
      high = take();
    }
    if (c >= low && c <= high) in = true;
  }
  return in != negated;
}

// Matches one pattern element other than a star at pattern[*p] with the character at name[*n].
bool ElementMatches(std::string_view pattern, size_t* p, std::string_view name, size_t* n) {
  const uint32_t c = NextChar(name, n);
  if (pattern[*p] == '?') {
    ++*p;
    return true;
  }
  if (pattern[*p] == '[') {
    const size_t end = ClassEnd(pattern, *p);
    const std::string_view members = pattern.substr(*p + 1, end - *p - 1);
    *p = end + 1;
    return ClassMatches(members, c);
  }
  if (pattern[*p] == '\\') ++*p;
  return NextChar(pattern, p) == c;
}

// Backtracks to the latest star only. That is sufficient, and bounds a hostile pattern to n * m
// steps.
bool MatchesOne(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0;
  size_t star = std::string_view::npos, star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_name = n;
      continue;
    }
    if (p < pattern.size() && ElementMatches(pattern, &p, name, &n)) continue;
    if (star == std::string_view::npos) return false;
    NextChar(name, &star_name);
    p = star;
    n = star_name;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Checks brackets and escapes, and repeatedly replaces the first {…} by its alternatives.
Status Expand(std::string pattern, std::vector<std::string>* out) {
  std::vector<std::string> work{std::move(pattern)};
  while (!work.empty()) {
    const std::string text = std::move(work.back());
    work.pop_back();
    size_t open = std::string::npos;
    for (size_t i = 0; i < text.size() && open == std::string::npos; ++i) {
      if (text[i] == '\\') {
        if (++i == text.size()) {
          return Fail(Code::kInvalidArgument, "pattern ends with a backslash");
        }
        continue;
      }
      if (text[i] == '[') {
        i = ClassEnd(text, i);
        if (i == std::string::npos) return Fail(Code::kInvalidArgument, "pattern: [ without ]");
      } else if (text[i] == '{') {
        open = i;
      }
    }
    if (open == std::string::npos) {
      out->push_back(text);
      continue;
    }
    std::vector<size_t> cuts{open};
    int depth = 0;
    size_t close = std::string::npos;
    for (size_t i = open; i < text.size() && close == std::string::npos; ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '{') {
        ++depth;
      } else if (text[i] == '}' && --depth == 0) {
        close = i;
      } else if (text[i] == ',' && depth == 1) {
        cuts.push_back(i);
      }
    }
    if (close == std::string::npos) return Fail(Code::kInvalidArgument, "pattern: { without }");
    cuts.push_back(close);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      work.push_back(text.substr(0, open) + text.substr(cuts[i] + 1, cuts[i + 1] - cuts[i] - 1) +
                     text.substr(close + 1));
    }
    if (work.size() + out->size() > kMaxAlternatives) {
      return Fail(Code::kInvalidArgument, "pattern: more than 256 alternatives");
    }
  }
  return {};
}

}  // namespace

Result<Glob> Glob::Parse(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) return Fail(Code::kInvalidArgument, "pattern: too long");
  Glob glob;
  ATOLL_TRY(Expand(std::string(pattern), &glob.alternatives_));
  return glob;
}

bool Glob::Matches(std::string_view name) const {
  for (const std::string& alternative : alternatives_) {
    if (MatchesOne(alternative, name)) return true;
  }
  return false;
}

}  // namespace atl::execd
