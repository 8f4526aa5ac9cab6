// Feeds hostile bytes to the readers of vaults, and hostile requests to the vaults that were
// accepted. The input is a document. A request may follow a line "--": a line with its target,
// header lines, an empty line, and the body. Checks that
// - a vault survives its way to the program that intercepts;
// - no two of its bindings match one request;
// - no head that leaves has a line end in it;
// - nothing that was put into a path leads out of it;
// - each header has its credential.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "netpolicy/vault/document_json.h"
#include "netpolicy/vault/match.h"
#include "netpolicy/vault/metadata_json.h"
#include "netpolicy/vault/path.h"
#include "netpolicy/vault/redact.h"
#include "netpolicy/vault/rewrite.h"
#include "netpolicy/vault/wire_json.h"
#include "runtime/base/result.h"
#include "runtime/http/head.h"

namespace {

using namespace atl::vault;  // NOLINT(google-build-using-namespace): one program
using atl::http::Header;
using atl::http::Request;

std::string_view Line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Reads a request as a parser would pass it on, with only what a parser accepts.
bool ReadRequest(std::string_view& text, Request& request) {
  request.method = "POST";
  request.target = std::string(Line(text));
  if (!atl::http::ValidTarget(request.target) || request.target[0] != '/') return false;
  for (std::string_view line = Line(text); !line.empty(); line = Line(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 1);
    if (!atl::http::ValidField(name, value)) return false;
    request.headers.Add(std::string(name), std::string(value));
  }
  return true;
}

void CheckDocument(std::string_view text, const Vault& vault) {
  ATOLL_CHECK(Check(vault));
  const std::string bytes = Encode(vault);
  ATOLL_CHECK(bytes.size() <= kMaxEncoded);
  const auto again = Decode(bytes);
  ATOLL_CHECK(again && Encode(*again) == bytes);
  ATOLL_CHECK(VaultMetadata(*again) == VaultMetadata(vault));
  (void)Patch(vault, text);
  const auto next = Patch(vault, "{\"expectedRevision\": 1}");
  ATOLL_CHECK(next && next->revision == 2);
}

// Redaction finds a value that is sent, and no answer grows without bound.
void CheckRedaction(const Vault& vault, std::string_view text) {
  const Redactor redactor(vault);
  const auto redacted = redactor.Redact(text);
  if (redacted) ATOLL_CHECK(redacted->size() <= text.size() * kRedacted.size());
  for (const Binding& binding : vault.bindings) {
    for (const HeaderEntry& entry : binding.auth.headers) {
      const std::string& value = FindCredential(vault, entry.credential)->value;
      const auto own = redactor.Redact(value);
      ATOLL_CHECK(own && own->starts_with(kRedacted));
    }
  }
}

void CheckRequest(const Vault& vault, std::string_view text) {
  Request request;
  if (!ReadRequest(text, request)) return;
  const Scheme scheme = Scheme::kHttps;
  const std::string_view host = "api.example.com";
  const Choice choice = Choose(vault, scheme, host, request.method, request.path());
  ATOLL_CHECK((choice.binding != nullptr) == (choice.kind == Choice::Kind::kOne));
  // Check refuses a vault in which two bindings match one request.
  ATOLL_CHECK(choice.kind != Choice::Kind::kAmbiguous);
  if (choice.binding == nullptr) return;
  ATOLL_CHECK(Covers(vault, scheme, host) && TakesHost(*choice.binding, host));
  const bool has_body = SubstitutesBody(*choice.binding, request.headers);
  if (has_body) {
    const auto body = RewriteBody(vault, *choice.binding, request.headers, text);
    if (body && *body) ATOLL_CHECK((*body)->size() <= kMaxRewrittenBody);
  }
  const auto applied = Rewrite(vault, *choice.binding, request);
  if (!applied) {
    ATOLL_CHECK(applied.error().code() != atl::Code::kInternal);
    return;
  }
  ATOLL_CHECK(atl::http::ValidTarget(request.target));
  if (applied->path) ATOLL_CHECK(!IsAmbiguousPath(request.path(), EncodedSlash::kNever));
  for (const Header& header : request.headers.list) {
    ATOLL_CHECK(atl::http::ValidField(header.name, header.value));
  }
  for (const HeaderEntry& entry : choice.binding->auth.headers) {
    const std::string& value = FindCredential(vault, entry.credential)->value;
    ATOLL_CHECK(request.headers.Get(entry.name) == HeaderValue(choice.binding->auth.kind, value));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kMark = "\n--\n";
  const size_t mark = text.find(kMark);
  const std::string_view document = text.substr(0, mark);
  (void)Decode(document);
  const auto vault = ParseVault(document);
  if (!vault) return 0;
  CheckDocument(document, *vault);
  if (mark == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(mark + kMark.size());
  CheckRedaction(*vault, rest);
  CheckRequest(*vault, rest);
  return 0;
}
