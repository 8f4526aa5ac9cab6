#include "execd/code/kernel_message.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <algorithm>

#include "execd/code/zmtp.h"
#include "runtime/base/sandbox_id.h"

namespace atl::execd {
namespace {

constexpr std::string_view kDelimiter = "<IDS|MSG>";
// Limit on a header, which usually has a few hundred bytes.
constexpr size_t kMaxHeader = 64 << 10;

tl::unexpected<Error> Malformed(std::string_view what) {
  return Fail(Code::kInvalidArgument, "kernel message: " + std::string(what));
}

Result<std::string> HeaderMember(std::string header, std::string_view name) {
  if (header.size() > kMaxHeader) return Malformed("header of more than 64 KiB");
  ATOLL_ASSIGN(const JsonDocument document, JsonDocument::Parse(std::move(header)));
  return std::string(document.root().Find(name).text());
}

}  // namespace

std::string MessageCodec::Sign(std::string_view header, std::string_view parent,
                               std::string_view metadata, std::string_view content) const {
  hmac_sha256_ctx context;
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const uint8_t*>(text.data());
  };
  hmac_sha256_set_key(&context, key_.size(), bytes(key_));
  for (const std::string_view part : {header, parent, metadata, content}) {
    hmac_sha256_update(&context, part.size(), bytes(part));
  }
  std::string digest(SHA256_DIGEST_SIZE, '\0');
  hmac_sha256_digest(&context, digest.size(), reinterpret_cast<uint8_t*>(digest.data()));
  return HexEncode(digest);
}

void MessageCodec::AppendRequest(std::string* out, std::string_view type, std::string_view id,
                                 std::string_view content, int64_t unix_ms) const {
  std::string header = "{\"msg_id\":";
  AppendJsonString(&header, id);
  header.append(",\"session\":");
  AppendJsonString(&header, session_);
  header.append(",\"username\":\"execd\",\"date\":");
  AppendJsonTime(&header, unix_ms / 1000, unix_ms % 1000 * 1'000'000);
  header.append(",\"msg_type\":");
  AppendJsonString(&header, type);
  header.append(",\"version\":\"5.3\"}");
  AppendZmtpMessage(out,
                    {kDelimiter, Sign(header, "{}", "{}", content), header, "{}", "{}", content});
}

Result<KernelMessage> MessageCodec::Decode(std::vector<std::string> frames) const {
  const auto delimiter = std::find(frames.begin(), frames.end(), kDelimiter);
  if (frames.end() - delimiter < 6) return Malformed("fewer frames than one has");
  const std::string& signature = delimiter[1];
  const std::string expected = Sign(delimiter[2], delimiter[3], delimiter[4], delimiter[5]);
  if (signature.size() != expected.size() ||
      memeql_sec(signature.data(), expected.data(), expected.size()) == 0) {
    return Fail(Code::kPermissionDenied, "kernel message: wrong signature");
  }
  KernelMessage message;
  ATOLL_ASSIGN(message.type, HeaderMember(std::move(delimiter[2]), "msg_type"));
  ATOLL_ASSIGN(message.parent, HeaderMember(std::move(delimiter[3]), "msg_id"));
  ATOLL_ASSIGN(message.content,
               JsonDocument::Parse(std::move(delimiter[5]), ZmtpReader::kMaxMessage));
  return message;
}

}  // namespace atl::execd
