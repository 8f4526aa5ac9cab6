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
  if (!DecodeFields(bytes, &report) || report.message.size() > kMaxReportText) {
    return Fail(Code::kInvalidArgument, "start report: malformed");
  }
  return report;
}

}  // namespace atl::wire
