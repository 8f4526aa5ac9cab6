#include "runtime/http/query.h"

#include <algorithm>

#include "runtime/http/ascii.h"

namespace atl::http {

bool PercentDecode(std::string_view text, std::string* out) {
  out->clear();
  out->reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = HexValue(text[i + 1]);
    const int low = HexValue(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

namespace {

// Keeps malformed escapes, like browsers and the reference server.
std::string DecodeFormText(std::string_view text) {
  std::string blanks(text);
  std::replace(blanks.begin(), blanks.end(), '+', ' ');
  std::string decoded;
  return PercentDecode(blanks, &decoded) ? decoded : blanks;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    if (!pair.empty()) {
      const size_t equals = pair.find('=');
      pairs.emplace_back(DecodeFormText(pair.substr(0, equals)),
                         equals == std::string_view::npos
                             ? std::string()
                             : DecodeFormText(pair.substr(equals + 1)));
    }
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return pairs;
}

}  // namespace atl::http
