#include "netpolicy/vault/redact.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "netpolicy/vault/encoding.h"
#include "netpolicy/vault/literals.h"
#include "runtime/base/base64.h"
#include "runtime/http/ascii.h"

namespace atl::vault {
namespace {

// A text as a decoder would read it, with the position in the original at which each of its bytes
// begins.
struct View {
  std::string text;
  std::vector<uint32_t> begins;  // one element more than `text` has bytes
};

View AsItStands(std::string_view text) {
  View view{std::string(text), std::vector<uint32_t>(text.size() + 1)};
  std::iota(view.begins.begin(), view.begins.end(), 0);
  return view;
}

// Removes one layer of escapes.
View Decoded(const View& from, bool plus_is_blank) {
  const std::string& text = from.text;
  View view;
  size_t at = 0;
  while (at < text.size()) {
    view.begins.push_back(from.begins[at]);
    const int byte = EscapedByte(text, at);
    if (byte >= 0) {
      view.text.push_back(static_cast<char>(byte));
      at += 3;
    } else {
      view.text.push_back(plus_is_blank && text[at] == '+' ? ' ' : text[at]);
      ++at;
    }
  }
  view.begins.push_back(from.begins.back());
  return view;
}

void AddValue(std::string_view value, std::vector<std::string>& texts) {
  texts.emplace_back(value);
  for (const JsonStyle style : {JsonStyle::kAscii, JsonStyle::kHtml}) {
    std::string once = JsonEscaped(value, style);
    // JSON within a JSON string.
    texts.push_back(JsonEscaped(once, style));
    texts.push_back(std::move(once));
  }
}

// Adds the value of basic as it is sent, and what it encodes, which a server may show.
void AddBasic(std::string_view value, std::vector<std::string>& texts) {
  const size_t last = value.find_last_not_of('=');
  texts.emplace_back(value.substr(0, last + 1));
  const std::optional<std::string> meant = DecodeBase64(value);
  const size_t colon = meant ? meant->find(':') : std::string::npos;
  if (colon == std::string::npos) return;
  AddValue(*meant, texts);
  const std::string_view password = std::string_view(*meant).substr(colon + 1);
  if (password.size() >= Redactor::kMinPassword) AddValue(password, texts);
}

}  // namespace

Redactor::Redactor(const Vault& vault) {
  for (const Binding& binding : vault.bindings) {
    const AuthKind kind = binding.auth.kind;
    for (const HeaderEntry& entry : binding.auth.headers) {
      const Credential* credential = FindCredential(vault, entry.credential);
      if (credential == nullptr) continue;
      AddValue(credential->value, texts_);
      texts_.push_back(HeaderValue(kind, credential->value));
      if (kind == AuthKind::kBasic) AddBasic(credential->value, texts_);
    }
    for (const Substitution& one : binding.auth.substitutions) {
      const Credential* credential = FindCredential(vault, one.credential);
      if (credential != nullptr) AddValue(credential->value, texts_);
      texts_.push_back(one.placeholder);
    }
  }
  std::sort(texts_.begin(), texts_.end());
  texts_.erase(std::unique(texts_.begin(), texts_.end()), texts_.end());
  std::erase_if(texts_, [](const std::string& text) { return text.empty(); });
}

std::optional<std::string> Redactor::Redact(std::string_view text) const {
  // The end of the longest secret that begins at each byte. This is used instead of a list of
  // occurrences, because secrets within each other would fill such a list.
  std::vector<uint32_t> ends;
  const auto search = [&](const View& view) {
    for (const std::string& one : texts_) {
      for (const uint32_t at : Occurrences(view.text, one)) {
        ends.resize(text.size(), 0);
        uint32_t& end = ends[view.begins[at]];
        end = std::max(end, view.begins[at + one.size()]);
      }
    }
  };
  View view = AsItStands(text);
  search(view);
  // A blank can be '+' only in the innermost layer: an outer layer would escape the '+'.
  for (size_t layers = 0;; ++layers) {
    if (view.text.find('+') != std::string::npos) search(Decoded(view, true));
    View inner = Decoded(view, false);
    if (inner.text.size() == view.text.size()) break;
    // Each layer is another pass, and a server may nest as many layers as a header has bytes.
    if (layers == kMaxLayers) return std::string(kRedacted);
    search(inner);
    view = std::move(inner);
  }
  if (ends.empty()) return std::nullopt;

  std::string out;
  uint32_t covered = 0;  // end of the covered part
  for (uint32_t at = 0; at < text.size(); ++at) {
    if (ends[at] > 0 && at >= covered) out.append(kRedacted);
    covered = std::max(covered, ends[at]);
    if (at >= covered) out.push_back(text[at]);
  }
  return out;
}

bool Redactor::RedactHeaders(http::Headers& headers) const {
  bool any = false;
  for (http::Header& header : headers.list) {
    if (http::EqualNoCase(header.name, "content-length")) continue;
    if (http::EqualNoCase(header.name, "transfer-encoding")) continue;
    std::optional<std::string> redacted = Redact(header.value);
    if (!redacted) continue;
    header.value = *std::move(redacted);
    any = true;
  }
  return any;
}

}  // namespace atl::vault
