#include "runtime/wire/start.h"

namespace atl::wire {
namespace {

constexpr size_t kMaxReportText = 4096;

}  // namespace

Result<StartMessage> DecodeStartMessage(std::string_view bytes) {
  StartMessage message;
  if (!DecodeFields(bytes, &message)) {
    return Fail(Code::kInvalidArgument, "start message: malformed");
  }
  return message;
}

Result<StartReport> DecodeStartReport(std::string_view bytes) {
  StartReport report;
  const bool whole = DecodeFields(bytes, &report);
  const bool known =
      report.kind == StartReport::Kind::kStarted || report.kind == StartReport::Kind::kFailed;
  if (!whole || !known || report.message.size() > kMaxReportText) {
    return Fail(Code::kInvalidArgument, "start report: malformed");
  }
  return report;
}

}  // namespace atl::wire
