// Takes the secrets of a vault out of what a server answers, so that the sandbox does not learn
// them from a header that repeats its request. Bodies are not looked at.
//
// Thread rule: immutable once made; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/vault/document.h"
#include "runtime/http/message.h"

namespace atl::vault {

inline constexpr std::string_view kRedacted = "[REDACTED]";

// The texts that belong to the bindings of one revision of a vault: placeholders; values, also as
// in JSON strings (and in JSON that is in one) and in the headers that are set ("Bearer …"); of
// basic, the user and the password that the value means, and the password alone if it has
// kMinPassword bytes. Each is found percent-encoded as well, up to kMaxLayers times, completely or
// in part, in either case, blanks as '+' or not. All bindings count, not only that of the request:
// the server may have the others' secrets from other requests.
class Redactor {
 public:
  // Shorter ones are part of too much else.
  static constexpr size_t kMinPassword = 6;
  // A text that is percent-encoded more often is taken out as a whole.
  static constexpr size_t kMaxLayers = 16;

  explicit Redactor(const Vault& vault);

  // `text` with kRedacted for each part of it that is covered by one of the texts, or by several
  // that overlap. Nothing if there is none.
  std::optional<std::string> Redact(std::string_view text) const;

  // Redacts all values but those of Content-Length and Transfer-Encoding, which say where the
  // answer ends. Whether there was anything.
  bool RedactHeaders(http::Headers& headers) const;

 private:
  std::vector<std::string> texts_;  // sorted, none empty
};

}  // namespace atl::vault
