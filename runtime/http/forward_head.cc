// Makes the request head for an upstream.
#include <algorithm>

#include "runtime/http/ascii.h"
#include "runtime/http/forward.h"
#include "runtime/http/head.h"
#include "runtime/http/serialize.h"

namespace atl::http {
namespace {

bool Replaced(const Upstream& upstream, std::string_view name) {
  const auto same = [name](std::string_view other) { return EqualNoCase(other, name); };
  return std::any_of(upstream.drop_headers.begin(), upstream.drop_headers.end(), same) ||
         std::any_of(upstream.set_headers.begin(), upstream.set_headers.end(),
                     [&](const Header& header) { return same(header.name); });
}

}  // namespace

Result<std::string> UpstreamRequestHead(const Request& request, const Upstream& upstream,
                                        bool chunked, bool upgrade) {
  if (!ValidTarget(upstream.target)) {
    return Fail(Code::kInternal, "forward: the target is not a valid request target");
  }
  std::string head;
  head.reserve(1024);
  head.append(request.method).append(" ").append(upstream.target).append(" HTTP/1.1\r\n");
  for (const Header& header : request.headers.list) {
    // Expect concerned only this server.
    if (IsHopByHop(request.headers, header.name) || EqualNoCase(header.name, "expect")) continue;
    if (!Replaced(upstream, header.name)) AppendField(header.name, header.value, &head);
  }
  for (const Header& header : upstream.set_headers) {
    if (!ValidField(header.name, header.value)) {
      return Fail(Code::kInternal, "forward: field " + header.name + " cannot be sent");
    }
    AppendField(header.name, header.value, &head);
  }
  if (chunked) AppendField("Transfer-Encoding", "chunked", &head);
  if (upgrade) {
    AppendField("Connection", "Upgrade", &head);
    AppendField("Upgrade", request.headers.Get("upgrade"), &head);
  }
  head.append("\r\n");
  return head;
}

}  // namespace atl::http
