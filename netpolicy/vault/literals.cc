#include "netpolicy/vault/literals.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace atl::vault {
namespace {

// The failure function of Knuth, Morris and Pratt: the length of the longest border of the first i
// + 1 bytes.
std::vector<uint32_t> Borders(std::string_view literal) {
  std::vector<uint32_t> borders(literal.size(), 0);
  uint32_t fits = 0;
  for (size_t i = 1; i < literal.size(); ++i) {
    while (fits > 0 && literal[i] != literal[fits]) fits = borders[fits - 1];
    if (literal[i] == literal[fits]) ++fits;
    borders[i] = fits;
  }
  return borders;
}

}  // namespace

std::vector<uint32_t> Occurrences(std::string_view text, std::string_view literal) {
  std::vector<uint32_t> found;
  if (literal.empty() || literal.size() > text.size()) return found;
  // Usually there is no occurrence. memmem is fast and linear; string_view::find is neither.
  if (memmem(text.data(), text.size(), literal.data(), literal.size()) == nullptr) return found;
  const std::vector<uint32_t> borders = Borders(literal);
  uint32_t fits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    while (fits > 0 && text[i] != literal[fits]) fits = borders[fits - 1];
    if (text[i] == literal[fits]) ++fits;
    if (fits < literal.size()) continue;
    found.push_back(static_cast<uint32_t>(i + 1 - literal.size()));
    fits = borders[fits - 1];
  }
  return found;
}

Result<std::optional<std::string>> ReplaceOnce(std::string_view text,
                                               const std::vector<Replacement>& replacements,
                                               size_t most) {
  // Shorter ones first, and of equal ones the later first, so that the one that wins is written
  // last.
  std::vector<uint32_t> order(replacements.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const size_t a_size = replacements[a].find.size();
    const size_t b_size = replacements[b].find.size();
    return a_size != b_size ? a_size < b_size : a > b;
  });
  // The number (from 1) of the replacement that begins at each byte of the text.
  std::vector<uint32_t> begins;
  for (const uint32_t index : order) {
    const std::vector<uint32_t> found = Occurrences(text, replacements[index].find);
    if (found.empty()) continue;
    begins.resize(text.size(), 0);
    for (const uint32_t at : found) begins[at] = index + 1;
  }
  if (begins.empty()) return std::nullopt;

  std::string out;
  const auto fits = [&](size_t bytes) { return out.size() <= most && bytes <= most - out.size(); };
  for (size_t at = 0; at < text.size();) {
    const Replacement* put = begins[at] > 0 ? &replacements[begins[at] - 1] : nullptr;
    if (!fits(put != nullptr ? put->put.size() : 1)) {
      return Fail(Code::kResourceExhausted,
                  "with its placeholders replaced, more than " + std::to_string(most) + " bytes");
    }
    if (put == nullptr) {
      out.push_back(text[at++]);
    } else {
      out.append(put->put);
      at += put->find.size();
    }
  }
  return out;
}

}  // namespace atl::vault
