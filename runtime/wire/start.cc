#include "runtime/wire/start.h"

#include <algorithm>

namespace atl::wire {
namespace {

constexpr size_t kMaxReportText = 4096;

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----\n";
constexpr std::string_view kEnd = "\n-----END CERTIFICATE-----\n";

bool IsBase64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/' || c == '=';
}

// Accepts exactly one block and nothing else, because the text is pasted into files that others
// read.
bool IsPem(std::string_view text) {
  if (text.size() > kMaxCertificate || text.size() <= kBegin.size() + kEnd.size() ||
      !text.starts_with(kBegin) || !text.ends_with(kEnd)) {
    return false;
  }
  text.remove_prefix(kBegin.size());
  text.remove_suffix(kEnd.size());
  return std::all_of(text.begin(), text.end(), [](char c) { return IsBase64(c) || c == '\n'; });
}

// Accepts eight hexadecimal digits and ".0", so that the name cannot lead out of its directory.
bool IsLink(std::string_view name) {
  return name.size() == 10 && name.ends_with(".0") &&
         name.find_first_not_of("0123456789abcdef") == 8;
}

}  // namespace

Status CheckForm(const TrustedAuthority& authority) {
  const bool sound = authority.certificate.empty()
                         ? authority.link.empty()
                         : IsPem(authority.certificate) && IsLink(authority.link);
  if (sound) return {};
  return Fail(Code::kInvalidArgument, "certificate authority: malformed");
}

Result<StartMessage> DecodeStartMessage(std::string_view bytes) {
  StartMessage message;
  if (!DecodeFields(bytes, &message)) {
    return Fail(Code::kInvalidArgument, "start message: malformed");
  }
  ATOLL_TRY(CheckForm(message.authority));
  return message;
}

Result<StartReport> DecodeStartReport(std::string_view bytes) {
  StartReport report;
  if (!DecodeFields(bytes, &report) || report.message.size() > kMaxReportText) {
    return Fail(Code::kInvalidArgument, "start report: malformed");
  }
  return report;
}

}  // namespace atl::wire
