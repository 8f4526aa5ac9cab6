#include "runtime/tenants/audit/audit_line.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/base/result.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/base/utc_time.h"
#include "runtime/base/utf8.h"

namespace atl::audit {
namespace {

constexpr std::string_view kCut = "…";
// Bytes that every line keeps for its end: the brackets, took_us, prev and hash.
constexpr size_t kEnd = 224;
// Longest texts, escaped. Their sum leaves half a line for the facts.
constexpr size_t kWord = 32;
constexpr size_t kId = 96;
constexpr size_t kName = 200;
// Bytes around a fact's text, and what a fact has at least.
constexpr size_t kAroundFact = 8;
constexpr size_t kLeastFact = 64;

// Characters that a terminal or an editor obeys instead of showing them.
bool IsInvisible(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

constexpr bool IsPlain(char c) {
  return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

bool IsHash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Takes `text` off the front of `rest`.
bool Take(std::string_view text, std::string_view* rest) {
  if (!rest->starts_with(text)) return false;
  rest->remove_prefix(text.size());
  return true;
}

// Takes the plain text up to the next quote.
std::optional<std::string_view> TakeText(std::string_view* rest) {
  const size_t end = rest->find('"');
  if (end == std::string_view::npos || end > kId) return {};
  const std::string_view text = rest->substr(0, end);
  if (!std::all_of(text.begin(), text.end(), IsPlain)) return {};
  rest->remove_prefix(end + 1);
  return text;
}

}  // namespace

void LineFormatter::Raw(std::string_view text) {
  ATOLL_CHECK(size_ + text.size() <= buffer_.size());
  std::memcpy(buffer_.data() + size_, text.data(), text.size());
  size_ += text.size();
}

void LineFormatter::Number(int64_t number) {
  char digits[24];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  Raw({digits, static_cast<size_t>(end - digits)});
}

void LineFormatter::Escaped(std::string_view text, size_t most) {
  const size_t limit = size_ + most;
  size_t cut_at = size_;  // the last place where "…" would still fit
  // `whole`: not to be cut within.
  const auto fits = [&](size_t size, bool whole) {
    const size_t room = limit - std::min(limit, size_ + kCut.size());
    if (size <= room) cut_at = size_ + size;
    if (size > room && !whole) cut_at = std::max(cut_at, size_ + room);
    return size_ + size <= limit;
  };
  while (!text.empty()) {
    const auto special = std::find_if_not(text.begin(), text.end(), IsPlain);
    if (const auto plain = static_cast<size_t>(special - text.begin()); plain > 0) {
      if (!fits(plain, false)) {
        Raw(text.substr(0, limit - size_));
        size_ = cut_at;
        return Raw(kCut);
      }
      Raw(text.substr(0, plain));
      text.remove_prefix(plain);
      continue;
    }
    const Utf8Character character = FirstUtf8(text);
    char escape[8];
    std::string_view shown = text.substr(0, character.length);
    if (text.front() == '"' || text.front() == '\\') {
      escape[0] = '\\';
      escape[1] = text.front();
      shown = {escape, 2};
    } else if (character.length == 0 || IsInvisible(character.code)) {
      const uint32_t code = character.length == 0 ? 0xfffd : character.code;
      constexpr std::string_view kHex = "0123456789abcdef";
      const char digits[] = {kHex[code >> 12 & 15], kHex[code >> 8 & 15], kHex[code >> 4 & 15],
                             kHex[code & 15]};
      std::memcpy(escape, "\\u", 2);
      std::memcpy(escape + 2, digits, sizeof digits);
      shown = {escape, 6};
    }
    if (!fits(shown.size(), true)) {
      size_ = cut_at;
      return Raw(kCut);
    }
    Raw(shown);
    text.remove_prefix(std::max<size_t>(character.length, 1));
  }
}

void LineFormatter::Member(std::string_view name, std::string_view text, size_t most) {
  if (text.empty()) return;
  Raw(first_ ? "\"" : ",\"");
  first_ = false;
  Raw(name);
  Raw("\":\"");
  Escaped(text, most);
  Raw("\"");
}

void LineFormatter::Facts(const std::vector<Fact>& facts) {
  if (facts.empty()) return;
  Raw(",\"what\":{");
  first_ = true;
  size_t others = facts.size();
  for (const Fact& fact : facts) {
    const size_t left = buffer_.size() - kEnd - std::min(size_, buffer_.size() - kEnd);
    // A long text leaves room for the facts behind it.
    const size_t kept = --others * kLeastFact;
    if (left < fact.name.size() + kLeastFact) break;
    if (const auto* text = std::get_if<std::string>(&fact.value)) {
      Member(fact.name, *text,
             left - std::min(kept, left - fact.name.size() - kLeastFact) - fact.name.size() -
                 kAroundFact);
      continue;
    }
    Raw(first_ ? "\"" : ",\"");
    first_ = false;
    Raw(fact.name);
    Raw("\":");
    Number(std::get<int64_t>(fact.value));
  }
  Raw("}");
}

void LineFormatter::Members(const Event& event) {
  first_ = false;
  Member("action", event.action, kWord);
  Member("outcome", event.outcome, kWord);
  if (event.status != 0) {
    Raw(",\"status\":");
    Number(event.status);
  }
  Member("tenant", event.tenant, kId);
  Raw(",\"actor\":{");
  first_ = true;
  Member("kind", event.actor.kind, kWord);
  Member("id", event.actor.id, kId);
  Member("sub", event.actor.subject, kName);
  Member("role", event.actor.role, kWord);
  Raw("}");
  if (!event.from.ip.empty() || !event.from.via.empty()) {
    Raw(",\"from\":{");
    first_ = true;
    Member("ip", event.from.ip, kId);
    Member("agent", event.from.agent, kName);
    Member("via", event.from.via, kWord);
    Raw("}");
  }
  if (!event.target.kind.empty()) {
    Raw(",\"target\":{");
    first_ = true;
    Member("kind", event.target.kind, kWord);
    Member("id", event.target.id, kName);
    Member("name", event.target.name, kName);
    Member("image", event.target.image, kName);
    Raw("}");
  }
  first_ = false;
  Member("request", event.request, kName);
  Member("trace", event.trace, kId);
  Facts(event.what);
  if (event.took_us >= 0) {
    Raw(",\"took_us\":");
    Number(event.took_us);
  }
}

std::string_view LineFormatter::Format(const Event& event, const Link& link) {
  ATOLL_CHECK(link.prev.size() == kHashDigits);
  size_ = 0;
  Raw(link.prev);
  Raw("{\"v\":1,\"seq\":");
  Number(static_cast<int64_t>(link.seq));
  first_ = false;
  Member("boot", link.boot, kWord);
  constexpr int64_t kMicros = 1'000'000;
  const UtcTime time(link.unix_micros / kMicros, link.unix_micros % kMicros * 1000, 6);
  Member("time", time.text(), kWord);
  Members(event);
  Raw(",\"prev\":\"");
  Raw(link.prev);
  Raw("\"");
  const std::string digits = HexEncode(Sha256({buffer_.data(), size_}));
  std::copy(digits.begin(), digits.end(), hash_.begin());
  Raw(",\"hash\":\"");
  Raw(digits);
  Raw("\"}\n");
  return {buffer_.data() + kHashDigits, size_ - kHashDigits};
}

std::optional<ParsedLine> ParseLine(std::string_view line) {
  constexpr std::string_view kPrev = ",\"prev\":\"", kHash = "\",\"hash\":\"", kClose = "\"}";
  constexpr size_t kTail = kPrev.size() + kHashDigits + kHash.size() + kHashDigits + kClose.size();
  if (line.size() >= kMaxLine || line.size() < kTail) return {};
  ParsedLine parsed;
  std::string_view tail = line.substr(line.size() - kTail);
  if (!Take(kPrev, &tail)) return {};
  parsed.prev = tail.substr(0, kHashDigits);
  tail.remove_prefix(kHashDigits);
  if (!Take(kHash, &tail)) return {};
  parsed.hash = tail.substr(0, kHashDigits);
  tail.remove_prefix(kHashDigits);
  if (tail != kClose || !IsHash(parsed.prev) || !IsHash(parsed.hash)) return {};
  parsed.body = line.substr(0, line.size() - kClose.size() - kHashDigits - kHash.size() + 1);

  std::string_view rest = line;
  if (!Take("{\"v\":1,\"seq\":", &rest)) return {};
  const auto number = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.seq);
  if (number.ec != std::errc()) return {};
  rest.remove_prefix(static_cast<size_t>(number.ptr - rest.data()));
  struct {
    std::string_view before;
    std::string_view* text;
  } const members[] = {{",\"boot\":\"", &parsed.boot},
                       {",\"time\":\"", &parsed.time},
                       {",\"action\":\"", &parsed.action}};
  for (const auto& member : members) {
    if (!Take(member.before, &rest)) return {};
    const auto text = TakeText(&rest);
    if (!text) return {};
    *member.text = *text;
  }
  return parsed;
}

bool HashMatches(const ParsedLine& line) {
  std::string hashed;
  hashed.reserve(kHashDigits + line.body.size());
  hashed.append(line.prev).append(line.body);
  return HexEncode(Sha256(hashed)) == line.hash;
}

}  // namespace atl::audit
