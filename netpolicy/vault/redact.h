// Removes the secrets of a vault from a server's answers, so that the sandbox does not learn them
// from a header that echoes its request. Bodies are not searched.
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

// Searches for the texts that belong to one revision of a vault:
// - placeholders;
// - values, also in JSON strings (and in JSON within one) and in the form of the headers that are
//   set ("Bearer …");
// - for basic: the user and password that the value encodes, and the password alone if it has at
//   least kMinPassword bytes.
//
// Each is also found percent-encoded, up to kMaxLayers times, completely or partly, in either case,
// with blanks as '+' or not. The texts of all bindings are searched, not only those of the
// request's binding, because the server may know the others from other requests.
class Redactor {
 public:
  // Shorter passwords would match unrelated text too often.
  static constexpr size_t kMinPassword = 6;
  // A text with more layers of percent-encoding is redacted completely.
  static constexpr size_t kMaxLayers = 16;

  explicit Redactor(const Vault& vault);

  // Returns `text` with kRedacted in place of each part that is covered by one of the secrets, or
  // by several overlapping ones. Empty if there is none.
  std::optional<std::string> Redact(std::string_view text) const;

  // Redacts all values except those of Content-Length and Transfer-Encoding, which say where the
  // answer ends. Returns true if anything was redacted.
  bool RedactHeaders(http::Headers& headers) const;

 private:
  std::vector<std::string> texts_;  // sorted, none empty
};

}  // namespace atl::vault
